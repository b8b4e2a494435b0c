"""The members that wait: which thread runs them, and when."""

from __future__ import annotations

import threading
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import pytest

from offsider.core.errors import HardTimeout, SoftTimeout
from offsider.runtime.context import JobContext
from offsider.worker.run import chunks as chunks_module
from offsider.worker.run.chunks import Chunks, ReadyChunk, WaitingMember
from offsider.worker.run.time_limits import GRACE_SECONDS, TimeLimits
from offsider.worker.unit_of_work import UnitOfWork
from tests.waiting import wait_for


class Scene:
    """Chunks whose threads note what they take."""

    def __init__(self, most: int = 2) -> None:
        self.paused: frozenset[str] = frozenset()
        self.alone = self.refuses = False
        self.taken: list[ReadyChunk] = []
        self.threads: list[threading.Thread] = []
        self.hold: threading.Event | None = None
        self.chunks = Chunks(self.start, lambda: not self.alone, lambda: self.paused, most)

    def start(self) -> bool:
        if self.refuses:
            return False
        self.threads.append(threading.Thread(target=self.serve, daemon=True))
        self.threads[-1].start()
        return True

    def serve(self) -> None:
        for chunk in self.chunks.due():
            self.taken.append(chunk)
            if self.hold is not None and chunk.starts:
                self.hold.wait(20)

    def stop(self) -> None:
        self.chunks.quiet()
        for thread in self.threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self.threads)


@pytest.fixture
def scene():
    one = Scene()
    yield one
    one.stop()


def declared(chunk: int = 3, seconds: float = 60.0) -> Any:
    # A class for each: members of the same declaration share a chunk.
    return type("Declared", (), {"chunk": chunk, "chunk_seconds": seconds})()


def member(of: Any, queue: str = "default") -> WaitingMember:
    run: Any = SimpleNamespace(job=SimpleNamespace(declared=of))
    return WaitingMember(UnitOfWork(queue, b""), run, copy_context())


def test_the_caller_that_fills_a_chunk_runs_it(scene):
    one, two = declared(), declared()
    first, second, third = member(one), member(one), member(one)
    assert [scene.chunks.add(each) for each in (first, member(two), second)] == [None, None, None]
    assert scene.chunks.add(third) == ReadyChunk([first, second, third])
    assert len(scene.chunks.waiting()) == 1
    assert scene.taken == []


def test_a_thread_runs_a_chunk_whose_time_is_over(scene):
    waits = member(declared(seconds=0.05))
    assert scene.chunks.add(waits) is None
    wait_for(lambda: scene.taken == [ReadyChunk([waits])])


def test_another_thread_watches_while_one_runs_a_chunk(scene):
    scene.hold = threading.Event()
    one, two = member(declared(seconds=0.01)), member(declared(seconds=0.3))
    scene.chunks.add(one)
    scene.chunks.add(two)
    wait_for(lambda: len(scene.taken) == 2)
    assert len(scene.threads) == 2
    third = member(declared(seconds=0.01))
    assert scene.chunks.add(third) is None  # both are busy, and no other runs a chunk
    paused = member(declared(), "low")
    assert scene.chunks.add(paused) is None
    scene.paused = frozenset({"low"})  # which a third one sees
    wait_for(lambda: scene.taken[2:] == [ReadyChunk([paused], starts=False)])
    assert scene.chunks.waiting() == [third.unit]
    scene.hold.set()
    wait_for(lambda: len(scene.taken) == 4)
    assert len(scene.threads) == 3


@pytest.mark.parametrize("why", ["quiet", "alone"])
def test_waiting_members_start_or_go_back_at_once(scene, why):
    waits, later = member(declared()), member(declared())
    scene.chunks.add(waits)
    if why == "quiet":
        scene.chunks.quiet()
    else:
        scene.alone = True
    starts = why == "alone"
    wait_for(lambda: scene.taken == [ReadyChunk([waits], starts)])
    assert scene.chunks.add(later) == ReadyChunk([later], starts)


def test_members_of_a_paused_queue_go_back_and_the_others_wait_on(scene):
    of = declared()
    low, high = member(of, "low"), member(of, "high")
    scene.chunks.add(low)
    scene.chunks.add(high)
    scene.paused = frozenset({"low"})
    wait_for(lambda: scene.taken == [ReadyChunk([low], starts=False)])
    assert scene.chunks.waiting() == [high.unit]
    scene.paused = frozenset()
    assert scene.chunks.add(member(of)) is None
    assert scene.chunks.add(full := member(of)) is not None
    assert full.unit not in scene.chunks.waiting()


def test_without_a_thread_a_member_runs_by_itself(scene):
    scene.refuses = True
    alone = member(declared())
    assert scene.chunks.add(alone) == ReadyChunk([alone])
    assert scene.chunks.waiting() == []


def test_an_idle_thread_ends_and_the_next_member_starts_another(scene, monkeypatch):
    monkeypatch.setattr(chunks_module, "IDLE_SECONDS", 0.01)
    scene.chunks.add(member(declared(seconds=0.01)))
    wait_for(lambda: len(scene.taken) == 1 and not scene.threads[0].is_alive())
    scene.chunks.add(member(declared(seconds=0.01)))
    wait_for(lambda: len(scene.taken) == 2)
    assert len(scene.threads) == 2


def test_a_thread_that_dies_is_counted_no_more():
    chunks = Chunks(lambda: True, lambda: True, frozenset, 1)
    chunks.add(member(declared(seconds=0.0)))
    due: Any = chunks.due()
    next(due)
    due.close()
    assert (chunks._threads, chunks._busy) == (0, 0)


# ------------------------------------------------------------------------------- time limits


def limited(**limits: float) -> tuple[JobContext, UnitOfWork]:
    job = JobContext({"class": "Index", "args": [], "jid": "ab", **limits}, "default")  # type: ignore[typeddict-item]
    job.declared = SimpleNamespace(options={})
    return job, UnitOfWork("default", b"")


def test_the_shortest_limits_of_all_members_are_enforced(config):
    aimed: list[tuple[type, str]] = []
    overruns: list[tuple[UnitOfWork, str]] = []
    now = 1000.0
    limits = TimeLimits(config, lambda: now)
    limits.stop()
    members = [limited(), limited(soft_timeout=9, hard_timeout=20), limited(soft_timeout=5), limited(hard_timeout=12)]
    reach = SimpleNamespace(
        aim=lambda kind, message, landed: aimed.append((kind, message)) or True,
        kill=lambda error: False,
        place=lambda: "",
    )
    members[0][0].reach = reach  # type: ignore[assignment]
    end = limits.enforce_together(members, lambda unit, run: overruns.append((unit, str(run.outcome.error))))  # type: ignore[attr-defined]
    assert end is not None
    now += 5
    limits.tick()
    now += 7
    limits.tick()
    assert [kind for kind, _ in aimed if kind is not SoftTimeout] == [HardTimeout]
    assert aimed[0] == (SoftTimeout, "the job exceeded its soft limit of 5 s (soft_timeout)")
    now += GRACE_SECONDS
    limits.tick()
    assert [unit for unit, _ in overruns] == [unit for _, unit in members]
    end()
    assert all(unit.settled for _, unit in members)


def test_members_without_limits_are_not_watched(config):
    limits = TimeLimits(config)
    assert limits.enforce_together([limited()], lambda unit, run: None) is None
    end = limits.enforce_together([limited(soft_timeout=9), limited(hard_timeout=5)], lambda unit, run: None)
    assert end is not None
    end()
    limits.stop()
