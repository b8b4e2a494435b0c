"""Other fetchers behind the seam, and processors that die."""

from __future__ import annotations

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
    worker.stopped()
    assert worker.output.count("dies at the end") >= 2
