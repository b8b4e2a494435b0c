"""Jobs that close all file descriptors of their worker: it ends at once, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.process.stored import private, push, waiting
from tests.waiting import wait_for

APP = """
    import os, time
    from offsider import job
    from tests.process import jobs
    from tests.process.jobs import begin
    from tests.process.ledger import note

    @job(name="Closes")
    def closes(first, last):
        jid = begin()
        time.sleep(0.05)
        os.closerange(first, last)

    def leaving(job):
        yield
        note("left", job.jid)

    def configure(config):
        config.server_middleware.add(leaving)

    @job(name="ChildCloses")
    def child_closes():
        jid = begin()
        pid = os.fork()
        if pid == 0:
            os.closerange(3, 65536)
            jobs.short.enqueue(1)
            os._exit(0)
        note("end", jid, os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("closed", [(0, 65536), (3, 256)], ids=str)
def test_a_worker_without_its_descriptors_ends_and_its_jobs_run_again(workers, stored, ledger, closed):
    worker = workers.start("-c", "4", text=APP, measured=False)
    long = push(stored, "Long", 60)
    wait_for(lambda: ledger.notes("start", jid=long))
    closes = push(stored, "Closes", *closed)
    assert worker.ended() == 71, worker.output
    wait_for(lambda: len(waiting(stored)) == 2)
    assert {job["jid"] for job in waiting(stored)} == {long, closes}
    assert private(stored) == []
    assert not ledger.notes("left", jid=closes)  # middleware could use the socket of another thread
    if closed[0] > 2:
        assert "a job closed the file descriptors of this worker" in worker.output


def test_a_forked_child_may_close_all_and_push(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP, measured=False)
    jid = push(stored, "ChildCloses")
    wait_for(lambda: ledger.notes("end", jid=jid))
    wait_for(lambda: len(ledger.notes("end")) == 2)
    assert ledger.words("end")[0] == "0"
    worker.stopped()
