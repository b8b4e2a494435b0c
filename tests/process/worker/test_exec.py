"""A job that replaces the worker's program (`os.execv`): its running jobs are requeued immediately."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.process.stored import private, push, waiting
from tests.process.workers import RUNNING, keeper_of
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="an exec is seen by /proc (Linux)")

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


def program_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def identities(stored) -> set[str]:
    return {identity.decode() for identity in stored.smembers("processes")}


@pytest.mark.parametrize("keep_a_child", [False, True], ids=["alone", "with a child"])
def test_the_jobs_of_a_worker_that_became_sleep_are_back_at_once(workers, stored, ledger, keep_a_child):
    worker = workers.start("-c", "3", text=APP)
    keeper = worker.keeper
    long = push(stored, "Long", 60)
    wait_for(lambda: ledger.notes("start", jid=long))
    wait_for(lambda: identities(stored))
    becomes = push(stored, "Becomes", "sleep", "60", kwargs={"keep_a_child": keep_a_child})
    wait_for(lambda: "sleep 60" in program_of(worker.pid))
    before = time.monotonic()  # a beat keeps it alive for 45 s
    wait_for(lambda: len(waiting(stored)) == 2)
    assert time.monotonic() - before < 10
    assert {job["jid"] for job in waiting(stored)} == {long, becomes}
    assert private(stored) == []
    assert worker.runs
    assert identities(stored) == set()
    assert stored.keys(f"{worker.identity}*") == []
    assert "replaced its program (os.execv)" in worker.output
    worker.until_says(f"{worker.identity} is dead; requeued its 2 jobs")
    wait_for(lambda: Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[0] == "Z", 10)


def test_a_worker_that_became_a_new_worker_runs_the_jobs_of_the_old_one(workers, stored, ledger):
    worker = workers.start("-c", "2", text=APP)
    jid = push(stored, "Becomes")
    worker.until_says("running <Capsule", times=2)
    wait_for(lambda: ledger.notes("end", jid=jid, pid=worker.pid))
    first, second = (identity for identity, _ in RUNNING.findall(worker.output))
    assert first != second
    assert identities(stored) <= {second}
    wait_for(lambda: private(stored) == [])  # acknowledged after its own last line
    later = push(stored, "Short")
    wait_for(lambda: ledger.notes("end", jid=later, pid=worker.pid))
    worker.stopped()
    assert waiting(stored) == []


@pytest.mark.parametrize("words", [("sleep", "60"), ()], ids=["sleep", "itself"])
def test_a_supervisor_ends_a_worker_that_ran_exec_and_starts_another(workers, stored, ledger, words):
    supervisor = workers.start("--processes", "1", "-c", "2", text=APP)
    first = int(RUNNING.findall(supervisor.output)[0][1])
    keeper = keeper_of(supervisor.pid)
    jid = push(stored, "Becomes", *words)
    supervisor.until_says(f"worker 1 (process {first}) was replaced by another program", 15)
    wait_for(lambda: ledger.notes("end", jid=jid), 20)
    ending = rf"\(process {first}\) (was killed by SIGTERM|ended with code)"
    assert re.search(ending, supervisor.until_says("old worker", 40))
    with suppress(ProcessLookupError):
        os.kill(first, signal.SIG_DFL)
        pytest.fail("the program still runs")
    assert keeper_of(supervisor.pid) == keeper
    wait_for(lambda: private(stored) == [])
    supervisor.stopped()
    assert waiting(stored) == []
