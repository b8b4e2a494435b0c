"""Jobs that close all file descriptors of their worker: it ends at once, nothing is lost, and such a job is buried."""

from __future__ import annotations

import pytest

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

GOOD = 60
APP = """
    import os, time
    from offsider import job
    from tests.process import jobs
    from tests.process.jobs import begin
    from tests.process.ledger import note

    def configure(config):
        jobs.configure(config)
        config.on("job_poisoned", lambda news: note("poisoned", word=len(news.identities)))

    @job(name="Closes")
    def closes(first, last):
        jid = begin()
        time.sleep(0.05)
        os.closerange(first, last)

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


@pytest.mark.parametrize("closed", [(3, 65536), (0, 65536), (3, 256)], ids=str)
def test_a_worker_without_its_descriptors_ends_and_its_jobs_run_again(workers, stored, ledger, closed):
    worker = workers.start("-c", "4", text=APP, measured=False)
    long = push(stored, "Long", 60)
    wait_for(lambda: ledger.notes("start", jid=long))
    closes = push(stored, "Closes", *closed)
    assert worker.ended(20) == 71, worker.output
    wait_for(lambda: len(waiting(stored)) == 2)
    assert {job["jid"] for job in waiting(stored)} == {long, closes}
    assert private(stored) == []
    if closed[0] > 2:
        assert "a job closed the file descriptors of this worker" in worker.output


def test_such_a_job_is_buried_and_the_others_run(workers, stored, ledger):
    good = {push(stored, "Short", number, 0.05) for number in range(GOOD // 2)}
    closes = push(stored, "Closes", 3, 65536)
    good |= {push(stored, "Short", number, 0.05) for number in range(GOOD // 2)}
    parent = workers.start("--processes", "1", "-c", "4", text=APP, measured=False)
    wait_for(lambda: set(ledger.counts("end")) >= good and bool(ledger.notes("poisoned")), 90)
    (dead,) = sorted_set(stored, "dead")
    assert (dead["jid"], dead["error_class"]) == (closes, "offsider.PoisonPill")
    assert "ended with code 71" in parent.output
    wait_for(lambda: private(stored) == [])
    parent.stopped()
    assert waiting(stored) == sorted_set(stored, "retry") == []


def test_a_forked_child_may_close_all_and_push(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP, measured=False)
    jid = push(stored, "ChildCloses")
    wait_for(lambda: ledger.notes("end", jid=jid))
    wait_for(lambda: len(ledger.notes("end")) == 2)
    assert ledger.words("end")[0] == "0"
    worker.stopped()
