"""Thousands of distinct classes: the worker keeps running, and its memory of them is bounded."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from offsider.core.gil import FREE_THREADED
from offsider.embedded.folder import free_port
from tests.process.stored import payload, private, push, push_raw, sorted_set, waiting
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc (Linux)")

DECLARED, UNKNOWN = 3_000, 12_000
APP = f"""
    from offsider import job
    from tests.process import jobs
    from tests.process.jobs import configure, short

    def declare(number):
        @job(name=f"Kind{{number}}", retry=False)
        def kind(given=0):
            return None

    for number in range({DECLARED}):
        declare(number)
"""


def resident_kilobytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def push_kinds(stored, name: str, first: int, count: int, **fields) -> None:
    jobs = [payload(f"{name}{number}", 1, **fields) for number in range(first, first + count)]
    for start in range(0, len(jobs), 1000):
        push_raw(stored, *(json.dumps(job).encode() for job in jobs[start : start + 1000]))


@pytest.mark.skipif(FREE_THREADED, reason="without the GIL, CPython collects garbage when memory has grown by a tenth")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fields", [{}, {"soft_timeout": "never", "tags": 7}], ids=["plain", "with odd values"])
def test_undeclared_classes_leave_no_state_in_the_worker(workers, stored, ledger, fields):
    worker = workers.start("-c", "4", text=APP, environ={"OFFSIDER_WORKER_STRANDED_DAYS": "0"}, measured=False)
    sizes = []
    for part in range(4):
        push_kinds(stored, "Unknown", part * UNKNOWN // 4, UNKNOWN // 4, retry=False, **fields)
        wait_for(lambda: waiting(stored) == [] and private(stored) == [], 60)
        sizes.append(resident_kilobytes(worker.pid))
    wait_for(lambda: int(stored.get("stat:failed") or 0) == UNKNOWN, 30)
    assert sizes[-1] - sizes[0] < 6_000, sizes
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))
    worker.stopped()


@pytest.mark.timeout(240)
def test_thousands_of_declared_classes_take_a_bounded_memory_and_are_all_counted(workers, stored, ledger):
    worker = workers.start("-c", "4", "--health", f"127.0.0.1:{free_port()}", text=APP, measured=False)
    sizes = []
    for _ in range(4):
        push_kinds(stored, "Kind", 0, DECLARED, retry=False)
        wait_for(lambda: waiting(stored) == [] and private(stored) == [], 60)
        wait_for(lambda: int(stored.get("stat:processed") or 0) == (len(sizes) + 1) * DECLARED, 30)
        sizes.append((resident_kilobytes(worker.pid), resident_kilobytes(worker.parent)))
    (worker_before, parent_before), (worker_after, parent_after) = sizes[1], sizes[-1]
    assert worker_after - worker_before < 6_000, sizes
    assert parent_after - parent_before < 6_000, sizes
    assert sorted_set(stored, "retry") == []
    worker.stopped(40)
