"""The keeper beside a plain worker (rule 10): no job starves its beats, and a death is made good at once."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.process.stored import private, push, waiting
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at /proc (Linux)")


def runs(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_a_job_that_blocks_the_interpreter_for_several_lifetimes_runs_once(workers, stored, ledger):
    fast = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "1"}
    first = workers.start("-c", "1", environ=fast)
    push(stored, "Hog", 4)
    wait_for(lambda: ledger.notes("start", pid=first.pid))
    second = workers.start("-c", "1", environ=fast)
    wait_for(lambda: ledger.notes("end"))
    assert len(ledger.notes("start")) == 1
    assert ledger.notes("end", pid=first.pid)
    later = push(stored, "Short")
    wait_for(lambda: ledger.notes("end", jid=later))
    assert ledger.notes("reclaimed") == ledger.notes("lost ownership") == []
    assert "declared dead" not in first.stopped() + second.stopped()


def test_the_jobs_of_a_killed_worker_are_back_within_a_second_though_its_life_is_45(workers, stored, ledger):
    jids = [push(stored, "Receiving"), push(stored, "Locked")]
    worker = workers.start("-c", "2")
    keeper = worker.keeper
    wait_for(lambda: len(ledger.notes("start")) == 2)
    wait_for(lambda: stored.smembers("processes"))
    before = time.monotonic()
    worker.kill_alone()
    wait_for(lambda: len(waiting(stored)) == 2)
    assert time.monotonic() - before < 1.5
    assert {job["jid"] for job in waiting(stored)} == set(jids)
    assert {job["interrupted_count"] for job in waiting(stored)} == {1}
    assert private(stored) == []
    assert stored.smembers("processes") == set(), "no page shows the dead, nor what it ran"
    assert stored.keys(f"{worker.identity}*") == []
    wait_for(lambda: not runs(keeper), 10, "the keeper has ended")
    assert f"{worker.identity} is dead; requeued its 2 jobs" in worker.output
    for name, jid in zip(("Receiving", "Locked"), jids, strict=True):
        assert f"requeued {name} JID-{jid} to queue default: {worker.identity} is dead" in worker.output
    workers.start()
    wait_for(lambda: len(ledger.words("reclaimed")) == 2, what="the next worker announces them")
    assert set(ledger.words("reclaimed")) == {f"{worker.identity} 1"}


def test_a_clean_stop_leaves_the_keeper_nothing_to_do(workers, stored, ledger):
    worker = workers.start()
    keeper = worker.keeper
    push(stored, "Short")
    wait_for(lambda: ledger.notes("end"))
    worker.stopped()
    wait_for(lambda: not runs(keeper), 10, "the keeper has ended")
    assert stored.keys("offsider:fenced:*") == stored.hkeys("offsider:owners") == []
    assert "is dead" not in worker.output


def test_the_keeper_ignores_signals_of_a_terminal(workers, stored, ledger):
    worker = workers.start("-t", "20")
    keeper = worker.keeper
    push(stored, "Short", 1, 0.5)
    wait_for(lambda: ledger.notes("start"))
    for name in ("TSTP", "TTIN", "HUP", "INT", "TERM"):
        os.kill(keeper, getattr(signal, f"SIG{name}"))
    wait_for(lambda: ledger.notes("end"))
    assert worker.keeper == keeper
    os.killpg(worker.pid, signal.SIGINT)  # Ctrl-C
    assert worker.ended() == 0
    wait_for(lambda: not runs(keeper), 10)


def test_a_worker_that_loses_its_keeper_logs_it_once_and_continues(workers, stored, ledger):
    worker = workers.start(environ={"OFFSIDER_WORKER_LIVENESS_SECONDS": "1"})
    os.kill(worker.keeper, signal.SIGKILL)
    worker.until_says("the keeper is gone")
    until = time.monotonic() + 1.5  # more than a life
    wait_for(lambda: time.monotonic() > until)
    push(stored, "Short")
    wait_for(lambda: ledger.notes("end"))
    assert stored.exists(f"offsider:alive:{worker.identity}")
    assert worker.keeper is None
    assert worker.stopped().count("the keeper is gone") == 1


@pytest.mark.parametrize("given", [{"options": ("--no-keeper",)}, {"environ": {"OFFSIDER_WORKER_KEEPER": "false"}}])
def test_without_a_keeper_the_worker_logs_the_consequence(workers, given):
    worker = workers.start(*given.get("options", ()), environ=given.get("environ"))
    assert "no keeper is running: if a job blocks the interpreter for 45 s" in worker.output
    assert worker.keeper is None
    worker.stopped()


def test_a_keeper_survives_that_redis_is_away(workers, make_server, ledger):
    server = make_server(kind="valkey")
    workers.url = server.url
    worker = workers.start()
    keeper = worker.keeper
    os.kill(server.pid, signal.SIGKILL)
    worker.until_says(": keeper: ", 20)
    assert runs(keeper)
    worker.kill_alone()
    assert runs(keeper)


def test_a_worker_that_cannot_boot_leaves_no_keeper_running(workers):
    worker = workers.start(app="nothing.is.here", wait=False)
    assert worker.ended() == 1
    wait_for(lambda: not group_runs(worker.pid), 10)


def group_runs(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.killpg(pid, 0)
        return True
    return False
