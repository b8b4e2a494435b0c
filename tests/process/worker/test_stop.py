"""TERM and INT: running jobs get their time, unfinished ones are requeued, and the process exits in time."""

from __future__ import annotations

import os
import signal
import time

import pytest
import redis

from offsider.worker.run.interrupt import OBSTACLE
from tests.faults import FaultProxy
from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

TIMEOUT_SECONDS = 25
#: The promise is 4 s; half of one more is for a machine on which six tests run at a time.
MARGIN_SECONDS = 4.5


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_stop_lets_a_running_job_finish_and_ends_with_code_0(workers, stored, ledger, name):
    jid = push(stored, "Short", 1, 1.0)
    worker = workers.start("-c", "2")
    wait_for(lambda: ledger.notes("start", jid=jid))
    worker.send(name)
    assert worker.ended() == 0
    assert len(ledger.notes("end", jid=jid)) == 1
    assert waiting(stored) == private(stored) == sorted_set(stored, "retry") == []
    assert stored.scard("processes") == stored.hlen("offsider:owners") == 0
    assert worker.output.rstrip().endswith("stopped: 1 job finished, 0 requeued, 0 failed")


def test_the_last_line_of_a_stop_counts_the_outcomes_of_the_jobs(workers, stored, ledger):
    finishing = push(stored, "Short", 1, 1.0)
    failing = push(stored, "Failing", 1.0)
    lasting = push(stored, "Long", 30)
    worker = workers.start("-c", "3", "-t", "2", measured=False)
    wait_for(lambda: len(ledger.notes("start")) == 3)
    worker.send("TERM")
    assert worker.ended() == 0
    assert worker.output.rstrip().endswith("stopped: 1 job finished, 1 requeued, 1 failed")
    how = "did not finish in time" if OBSTACLE else "requeued Long JID-{} to queue default: the worker stops"
    assert how.format(lasting) in worker.output
    assert finishing in worker.output
    assert failing in worker.output


def test_an_idle_worker_stops_at_once(workers):
    worker = workers.start()
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 5


def test_a_second_term_changes_nothing_nor_does_one_int(workers, stored, ledger):
    push(stored, "Short", 1, 1.5)
    worker = workers.start()
    wait_for(lambda: ledger.notes("start"))
    for name in ("TERM", "INT", "TERM", "TERM"):
        worker.send(name)
    assert worker.ended() == 0
    assert len(ledger.notes("end")) == 1
    assert worker.output.count("stopping: running jobs have") == 1


@pytest.mark.timeout(150)
def test_at_the_default_deadline_all_capsules_give_their_jobs_back_together(workers, stored, ledger):
    """Two capsules, one deadline: waiting for one after the other would need 50 s."""
    app = workers.write("""
        from tests.process.jobs import *  # the same jobs
        from tests.process import jobs

        def configure(config):
            jobs.configure(config)
            config.capsule("second", concurrency=3, queues=["second"])
    """)
    kinds = {"Long": [40], "Async": [40], "Wrapping": [40], "Receiving": [], "Locked": []}
    jids = {push(stored, name, *args, queue=queue) for queue in ("default", "second") for name, args in kinds.items()}
    worker = workers.start("-c", "5", app=app, measured=False)
    wait_for(lambda: len(ledger.notes("start")) == 9)  # the coroutines occupy no thread

    before = time.monotonic()
    worker.send("TERM")
    assert worker.ended(60) == 0
    took = time.monotonic() - before
    assert TIMEOUT_SECONDS - 1 <= took < TIMEOUT_SECONDS + MARGIN_SECONDS

    started = set(ledger.counts("start"))
    left = waiting(stored) + waiting(stored, "second")
    assert {job["jid"] for job in left} == jids
    assert {job["jid"] for job in left if job.get("interrupted_count") == 1} == started
    assert private(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []
    assert stored.get("stat:failed") in (None, b"0")

    for job in left:  # those that never ran would only be interrupted now
        if job["jid"] not in started:
            stored.lrem(f"queue:{job['queue']}", 0, _raw(stored, job))
    workers.start("-q", "default", "-q", "second")
    wait_for(lambda: set(ledger.counts("end")) == started)
    assert set(ledger.counts("start").values()) == {2}


def _raw(stored, job):
    return next(raw for raw in stored.lrange(f"queue:{job['queue']}", 0, -1) if job["jid"].encode() in raw)


UNDONE = {
    "Long": [40],
    "Async": [40],
    "Wrapping": [40],
    "Cleaning": [40],
    "Receiving": [],
    "Locked": [],
    "Stubborn": [40],
    "StubbornAsync": [40],
    "BlockingAsync": [],
}


@pytest.mark.parametrize("name, args", UNDONE.items(), ids=list(UNDONE))
def test_a_job_unfinished_at_the_deadline_runs_again_elsewhere(workers, stored, ledger, name, args):
    jid = push(stored, name, *args)
    worker = workers.start("-t", "1", measured=False)
    wait_for(lambda: ledger.notes("start", jid=jid))
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 1 + MARGIN_SECONDS

    (job,) = waiting(stored)
    assert (job["jid"], job["interrupted_count"]) == (jid, 1)
    assert "retry_count" not in job
    assert private(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []
    assert stored.hlen("offsider:owners") == 0
    if name == "Async":
        assert len(ledger.notes("cancelled", jid=jid)) == 1
    if name == "Cleaning" and not OBSTACLE:  # else its thread runs until the process ends
        assert len(ledger.notes("cleaned", jid=jid)) == 1

    workers.start()
    wait_for(lambda: ledger.notes("end", jid=jid))
    assert ledger.words("start") == ["0", "1"]


def test_a_job_can_check_whether_the_worker_stops(workers, stored, ledger):
    jid = push(stored, "Polite", 60)
    worker = workers.start()
    wait_for(lambda: ledger.notes("start", jid=jid))
    worker.stopped(10)
    assert len(ledger.notes("end", jid=jid)) == 1
    assert waiting(stored) == []


@pytest.mark.not_on_cluster("the promise is about one server")
@pytest.mark.parametrize("options", [(), ("-p", "2")], ids=["alone", "parent"])
@pytest.mark.parametrize("how", ["frozen", "swallowed", "refused"])
def test_a_stop_is_in_time_also_without_the_server(workers, make_server, ledger, how, options):
    server = make_server(kind="redis7")
    with redis.Redis.from_url(server.url) as client, FaultProxy(server.url) as proxy:
        workers.url = proxy.url
        push(client, "Receiving")
        worker = workers.start("-t", "1", *options, measured=False)
        if options:
            worker.until_says("now running: 2 workers", 40)
        wait_for(lambda: ledger.notes("start"))
        if how == "frozen":
            os.kill(server.pid, signal.SIGSTOP)
        elif how == "swallowed":
            proxy.black_hole()
        else:
            proxy.refuse()
            proxy.reset()
        try:
            before = time.monotonic()
            worker.send("TERM")
            assert worker.ended() == 0
            # The promise is 2 s; with the server a stop may take 4 s.
            assert time.monotonic() - before < 1 + 3
        finally:
            os.kill(server.pid, signal.SIGCONT)
            proxy.release()
            proxy.accept()
        # For the next sweep, if it could not be requeued; in this order, because the parent may requeue it now.
        assert len(private(client)) + len(waiting(client)) >= 1


def test_a_stop_while_the_application_loads_ends_the_start(workers):
    worker = workers.start(
        wait=False,
        text="""
        import time
        print("loading", flush=True)
        time.sleep(30)
        """,
    )
    worker.until_says("loading")
    worker.stopped(10)
    assert "Traceback" not in worker.output


def test_functions_registered_with_atexit_run(workers, ledger):
    worker = workers.start(
        text="""
        import atexit
        from tests.process.ledger import note
        atexit.register(note, "atexit")
        """
    )
    worker.stopped()
    assert ledger.events() == ["atexit"]


def test_threads_started_by_a_job_do_not_block_the_exit(workers, stored, ledger):
    app = """
        import threading, time
        from offsider import job
        from tests.process.ledger import note

        @job(name="Litters")
        def litters():
            threading.Thread(target=time.sleep, args=(60,)).start()
            note("done")
    """
    push(stored, "Litters")
    worker = workers.start(text=app)
    wait_for(lambda: ledger.notes("done"))
    worker.stopped(10)


def test_a_stop_after_a_quiet_and_a_quiet_after_a_stop(workers, stored, ledger):
    push(stored, "Short", 1, 2.0)
    worker = workers.start()
    wait_for(lambda: ledger.notes("start"))
    worker.send("TSTP")
    worker.until_says("quiet: this worker claims no new jobs")
    worker.send("TERM")
    worker.until_says("stopping: ")
    worker.send("TSTP")
    assert worker.ended() == 0
    assert len(ledger.notes("end")) == 1


@pytest.mark.parametrize("name", ["Long", "Receiving"])
def test_a_stop_is_in_time_also_below_a_tracer(workers, stored, ledger, name):
    """Coverage and debuggers; CPython 3.11 would hang in them if the job were interrupted."""
    app = """
        import sys, threading
        from tests.process.jobs import *

        def trace(frame, event, argument):
            return trace

        def configure(config):
            threading.settrace(trace)
            sys.settrace(trace)
    """
    jid = push(stored, name, *([40] if name == "Long" else []))
    worker = workers.start("-t", "1", text=app, measured=False)
    wait_for(lambda: ledger.notes("start", jid=jid))
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 1 + MARGIN_SECONDS + 1
    assert [(job["jid"], job["interrupted_count"]) for job in waiting(stored)] == [(jid, 1)]


@pytest.mark.parametrize("event", ["quiet", "shutdown", "exit"])
def test_hanging_handlers_do_not_delay_the_stop(workers, stored, ledger, event):
    app = f"""
        import time
        from tests.process.jobs import *
        from tests.process.ledger import note

        def configure(config):
            for name in ("quiet", "shutdown", "exit"):
                config.on(name, lambda name=name: note(name))
            config.on("{event}", lambda: time.sleep(60))
    """
    jid = push(stored, "Long", 40)
    worker = workers.start("-t", "1", text=app, measured=False)
    wait_for(lambda: ledger.notes("start", jid=jid))
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 1 + MARGIN_SECONDS
    assert [(job["jid"], job["interrupted_count"]) for job in waiting(stored)] == [(jid, 1)]
    assert stored.hlen("offsider:owners") == 0
    reported = [name for name in ledger.events() if name in {"quiet", "shutdown", "exit"}]
    assert reported == [name for name in ("quiet", "shutdown", "exit") if name != event]
    assert f"handlers of {event} are still running" in worker.output
