"""Jobs that fork: the child of a job is no worker, and what happens to it does not happen to the worker."""

from __future__ import annotations

from tests.process.stored import private, push
from tests.waiting import wait_for

APP = """
    import multiprocessing, os, time
    from offsider import job
    from tests.process.jobs import short
    from tests.process.ledger import note

    fork = multiprocessing.get_context("fork")

    @job(name="Terminates", retry=False)
    def terminates():
        child = fork.Process(target=time.sleep, args=(60,))
        child.start()
        time.sleep(0.3)
        child.terminate()
        child.join(10)
        note("child", word=child.exitcode)

    @job(name="Pushes", retry=False)
    def pushes():
        child = fork.Process(target=push_some)
        child.start()
        child.join(10)
        note("child", word=child.exitcode)

    def push_some():
        for number in range(3):
            short.enqueue(number)
"""


def test_a_signal_for_the_child_of_a_job_is_none_for_the_worker(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP)
    push(stored, "Terminates")
    wait_for(lambda: ledger.words("child") == ["-15"])
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))
    assert "stopping" not in worker.output
    worker.stopped()


def test_a_child_may_push_jobs(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP)
    push(stored, "Pushes")
    wait_for(lambda: ledger.words("child") == ["0"])
    wait_for(lambda: sorted(ledger.words("end")) == ["0", "1", "2"])
    wait_for(lambda: private(stored) == [])
    worker.stopped()
