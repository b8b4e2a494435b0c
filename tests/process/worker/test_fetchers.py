"""Other fetchers behind the seam, and processors that die."""

from __future__ import annotations

import time

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for


def test_the_basic_fetcher_runs_fails_and_requeues_jobs(workers, stored, ledger):
    fine, failing, long = push(stored, "Short", 1), push(stored, "Failing"), push(stored, "Long", 60)
    worker = workers.start("-c", "3", "-t", "1", environ={"OFFSIDER_WORKER_FETCHER": "basic"})
    wait_for(lambda: ledger.notes("end", jid=fine) and ledger.notes("start", jid=long))
    wait_for(lambda: [job["jid"] for job in sorted_set(stored, "retry")] == [failing])
    assert private(stored) == []
    worker.stopped()
    (back,) = waiting(stored)
    assert (back["jid"], back["interrupted_count"]) == (long, 1)


def test_the_basic_fetcher_leaves_paused_queues_alone_and_stops_in_time(workers, stored, ledger):
    stored.sadd("paused", "default")
    jid = push(stored, "Short", 1)
    worker = workers.start(environ={"OFFSIDER_WORKER_FETCHER": "basic"})
    stored.srem("paused", "default")
    wait_for(lambda: ledger.notes("end", jid=jid))
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 6


def test_the_basic_fetcher_requeues_jobs_that_cannot_be_interrupted(workers, stored, ledger):
    jid = push(stored, "Receiving")
    worker = workers.start("-t", "0", environ={"OFFSIDER_WORKER_FETCHER": "basic"})
    wait_for(lambda: ledger.notes("start"))
    worker.stopped()
    (back,) = waiting(stored)
    assert (back["jid"], back["interrupted_count"]) == (jid, 1)


OWN = """
    from offsider.worker.fetch.reliable import ReliableFetcher
    from tests.process.jobs import *
    from tests.process.ledger import note

    class Own(ReliableFetcher):
        def retrieve(self):
            unit = super().retrieve()
            if unit is not None:
                note("retrieved", word=unit.queue)
            return unit

    class Fragile(ReliableFetcher):
        broken = 0

        def retrieve(self):
            unit = super().retrieve()
            if unit is not None and b"Short" in unit.raw and Fragile.broken < 5:
                Fragile.broken += 1
                self.give_back([(unit, unit.raw)])
                raise MemoryError(f"break {Fragile.broken}")
            return unit

        def settle(self, unit, disposition):
            if Fragile.broken < 10:
                Fragile.broken += 5
                raise AssertionError("not acknowledged")
            super().settle(unit, disposition)
"""


def test_a_custom_fetcher_is_imported_by_its_dotted_path(workers, stored, ledger):
    jid = push(stored, "Short", 1)
    worker = workers.start(text=OWN, environ={"OFFSIDER_WORKER_FETCHER": "app.Own"})
    wait_for(lambda: ledger.notes("end", jid=jid))
    assert ledger.words("retrieved") == ["default"]
    worker.stopped()


def test_a_missing_fetcher_class_is_an_error_at_the_start(workers):
    worker = workers.start(environ={"OFFSIDER_WORKER_FETCHER": "nowhere.Fetcher"}, wait=False)
    assert worker.ended() == 1
    assert "worker.fetcher" in worker.output
    assert "nowhere.Fetcher" in worker.output
    assert "Traceback" not in worker.output


def test_dead_processors_are_replaced_and_their_jobs_are_not_lost(workers, stored, ledger):
    """Two threads; five deaths before a job is run, one in the middle of settling it."""
    jid = push(stored, "Short", 1)
    worker = workers.start("-c", "2", text=OWN, environ={"OFFSIDER_WORKER_FETCHER": "app.Fragile"})
    wait_for(lambda: len(ledger.notes("end", jid=jid)) == 2)  # it had run when its settling broke, so it runs twice
    printed = worker.until_says("not acknowledged")
    assert printed.count("break ") >= 5
    for _ in range(3):
        further = push(stored, "Short", 2)
        wait_for(lambda further=further: ledger.notes("end", jid=further))
    wait_for(lambda: private(stored) == [])
    assert waiting(stored) == []
    worker.stopped()


def test_a_processor_that_dies_while_the_worker_stops_is_not_replaced(workers, stored, ledger):
    app = """
        from offsider.worker.fetch.reliable import ReliableFetcher
        from tests.process.jobs import *

        class Dying(ReliableFetcher):
            def retrieve(self):
                unit = super().retrieve()
                if unit is None:
                    raise MemoryError("dies at the end")
                return unit
    """
    worker = workers.start("-c", "2", text=app, environ={"OFFSIDER_WORKER_FETCHER": "app.Dying"})
    worker.stopped(10)
    assert worker.output.count("dies at the end") >= 2


BURST = """
    import time

    from offsider import job


    @job(name="Nothing")
    def nothing(number):
        pass


    @job(name="Lingering")
    def lingering():
        time.sleep(60)


    @job(name="Prompt")
    def prompt():
        open("prompt", "w").close()
"""


def test_a_long_job_at_the_end_of_a_burst_does_not_leave_the_idle_threads_asleep(workers, stored):
    """One thread runs a burst of short jobs alone; if its last one is long, another thread has to fetch jobs."""
    burst = [f'{{"class":"Nothing","args":[{number}],"jid":"{number:024x}"}}' for number in range(10_000)]
    stored.lpush("queue:default", *burst, '{"class":"Lingering","args":[],"jid":"a"}')
    workers.start("-c", "5", "-t", "0", text=BURST, measured=False)
    wait_for(lambda: stored.llen("queue:default") == 0 and len(private(stored)) == 1)
    before = time.monotonic()
    stored.lpush("queue:default", '{"class":"Prompt","args":[],"jid":"b"}')
    wait_for((workers.folder / "prompt").exists)
    assert time.monotonic() - before < 2
