"""A job that replaces the worker's program (`os.execv`): its running jobs are requeued immediately."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from tests.process.stored import private, push, waiting
from tests.process.workers import RUNNING
from tests.waiting import wait_for

# Once: when it runs again, it does no such thing.
APP = """
    import os
    import sys
    import time
    from offsider import current_job, job
    from tests.process import jobs
    from tests.process.jobs import begin
    from tests.process.ledger import note

    def configure(config):
        jobs.configure(config)

    @job(name="Becomes")
    def becomes(*words, keep_a_child=False):
        jid = begin()
        if current_job().interrupted_count:
            return note("end", jid)
        if keep_a_child and os.fork() == 0:  # it holds a copy of every descriptor
            time.sleep(30)
            os._exit(0)
        words = words or [sys.executable, *sys.orig_argv[1:]]
        os.execvp(words[0], words)
"""


def identities(stored) -> set[str]:
    return {identity.decode() for identity in stored.smembers("processes")}


@pytest.mark.parametrize("options, keep_a_child", [((), False), (("-p", "2"), True)], ids=["alone", "with a child"])
def test_the_jobs_of_a_worker_that_became_sleep_are_back_at_once(workers, stored, ledger, keep_a_child, options):
    """The parent kills the program; a child of the job holds copies of most descriptors."""
    worker = workers.start("-c", "3", *options, text=APP)
    jid = push(stored, "Becomes", "sleep", "60", kwargs={"keep_a_child": keep_a_child})
    ran = wait_for(lambda: ledger.notes("start", jid=jid))[0].pid
    identity = next(identity for identity, pid in RUNNING.findall(worker.output) if int(pid) == ran)
    worker.until_says("was replaced by another program (os.execv)")
    worker.until_says(f"{identity} is dead; requeued its 1 job")
    if options:
        wait_for(lambda: ledger.notes("end", jid=jid))
        worker.stopped()
    else:
        assert worker.ended() == 128 + signal.SIGKILL
        assert [job["jid"] for job in waiting(stored)] == [jid]
    with suppress(ProcessLookupError):
        os.kill(ran, signal.SIG_DFL)
        pytest.fail("the program still runs")
    assert private(stored) == []
    assert identity not in identities(stored)
