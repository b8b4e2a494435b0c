"""Chunks: one call of a function for many jobs of its class.

1. A claimed member waits in `Chunks`, without a thread. It is in flight and in its private list, so the death of the
   process recovers it, but it has not started: its wait is part of the time in the queue.
2. The thread that brings the last member of a full chunk runs it. A chunk that has waited for ``chunk_seconds`` is
   taken by a thread of `Chunks.due`, and so is each when a suspected poison pill must run alone. That thread also takes
   members whose queue was paused, or all when the worker is quiet: these go back to their queues.
3. Each member enters its admissions and its middleware, as any job does. One that does not start is settled at once.
4. The function runs once, in this thread or as a coroutine, outside of the contexts of its members.
5. Each member leaves its middleware with its own error, else that of the function, and is settled.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Generator, Sequence, Set as AbstractSet
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from offsider.core.errors import JobCancelled, OffsiderError
from offsider.runtime.forks import came_back, check_descriptors, this_process
from offsider.runtime.middleware import caught
from offsider.worker.run.coroutine_run import CoroutineRun
from offsider.worker.run.interrupt import Injection, Window

if TYPE_CHECKING:
    from offsider.jobs.chunk import Call
    from offsider.jobs.declared import Declared
    from offsider.worker.run.time_limits import TimeLimits
    from offsider.worker.unit_of_work import Run, UnitOfWork

#: While members wait: interval between two looks for pauses, a stop and a suspect.
POLL_SECONDS = 0.1
#: A thread ends after this time without a waiting member.
IDLE_SECONDS = 1.0


@dataclass(slots=True)
class Member:
    """The place of a job in its chunk, instead of a coroutine of its own.

    Attributes:
        call: what the function gets; None while the job waits.
        result, error: how it ended.
    """

    call: Call[Any] | None = None
    result: None = None
    error: BaseException | None = None


#: In `Run.coroutine`: the job has to wait for its chunk.
WAITING: Any = Member()


class WaitingMember(NamedTuple):
    """A member of a chunk, with the context of its run."""

    unit: UnitOfWork
    run: Run
    context: Context


class ReadyChunk(NamedTuple):
    """Members of a chunk that no longer wait.

    Attributes:
        starts: whether they run now; if False, they go back to their queues.
    """

    members: Sequence[WaitingMember]
    starts: bool = True


class Chunks:
    """The members that wait in one capsule.

    Args:
        start: starts a thread that iterates over `due`; False if there can be none.
        may_wait: returns False while a job must run alone in this process.
        paused: returns the paused queues.
        most: maximum number of chunks that run before they are full.
    """

    def __init__(
        self, start: Callable[[], bool], may_wait: Callable[[], bool], paused: Callable[[], frozenset[str]], most: int
    ) -> None:
        self._start = start
        self._may_wait = may_wait
        self._paused = paused
        self._most = most
        self._changed = threading.Condition()
        self._waiting: dict[Declared, tuple[float, list[WaitingMember]]] = {}
        self._threads = self._busy = 0
        self._numbers = itertools.count()
        self._is_quiet = False

    def add(self, member: WaitingMember) -> ReadyChunk | None:
        """Have a member wait; return those of its chunk if the caller must take care of them now."""
        declared: Declared = cast("Any", member.run.job).declared
        with self._changed:
            default = time.monotonic() + declared.chunk_seconds, list[WaitingMember]()
            _, members = self._waiting.setdefault(declared, default)
            members.append(member)
            starts = len(members) >= declared.chunk or not self._may_wait()
            if self._is_quiet or starts or not self._watched():
                del self._waiting[declared]
                return ReadyChunk(members, starts=not self._is_quiet)
            if len(members) == 1:
                self._changed.notify()
            return None

    def due(self) -> Generator[ReadyChunk]:
        """Yield chunks that start before they are full, or go back; end when none has waited for some time."""
        while (ready := self._take()) is not None:
            try:
                yield ready
            except GeneratorExit:  # the thread dies
                with self._changed:
                    self._threads -= 1
                raise
            finally:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()  # another chunk may be due

    def next_tid(self, tid: str) -> str:
        """Return a name for a running member, by that of its thread."""
        return f"{tid}-{next(self._numbers)}"

    def waiting(self) -> list[UnitOfWork]:
        """Return the members that wait."""
        with self._changed:
            return [member.unit for _, members in self._waiting.values() for member in members]

    def quiet(self) -> None:
        """Let no member wait any more."""
        with self._changed:
            self._is_quiet = True
            self._changed.notify_all()

    def _watched(self) -> bool:
        """Start a thread if none is free; False if there is none at all."""
        # One more than run chunks: it looks for pauses and stops while all others are busy.
        if self._threads == self._busy <= self._most and self._start():
            self._threads += 1
        return self._threads > 0

    def _take(self) -> ReadyChunk | None:
        with self._changed:
            while True:
                now, paused, may_wait = time.monotonic(), self._paused(), self._may_wait()
                for declared, (due_at, members) in self._waiting.items():
                    stopped = {unit.queue for unit, _, _ in members if self._is_quiet or unit.queue in paused}
                    is_due = due_at <= now and self._busy < self._most
                    if stopped or is_due or not may_wait:
                        return self._remove(declared, stopped)
                if self._waiting:
                    first = min(due_at for due_at, _ in self._waiting.values())
                    self._changed.wait(min(POLL_SECONDS, first - now) if first > now else POLL_SECONDS)
                elif self._is_quiet or not (self._changed.wait(IDLE_SECONDS) or self._waiting):
                    self._threads -= 1
                    return None

    def _remove(self, declared: Declared, stopped: AbstractSet[str]) -> ReadyChunk:
        """Remove a chunk, or of its members those of stopped queues."""
        due_at, members = self._waiting.pop(declared)
        if stopped and (others := [member for member in members if member.unit.queue not in stopped]):
            self._waiting[declared] = due_at, others
            members = [member for member in members if member.unit.queue in stopped]
        self._busy += 1
        if self._waiting:
            self._watched()
        return ReadyChunk(members, starts=not stopped)


class ThreadChunk(Injection):
    """A chunk that runs in a thread; for its members, as `CoroutineRun` for one job.

    Attributes:
        given_up: its jobs have failed but still run; the stop does not wait for them.
    """

    given_up = False

    def interrupt(self) -> None:
        """Interrupt it because of a stop."""
        self._window.interrupt()

    def aim(self, kind: type[OffsiderError], message: str, landed: Callable[[], None]) -> bool:
        """As `Injection`, but for a cancellation of one member, which would fail the others."""
        return kind is not JobCancelled and super().aim(kind, message, landed)


class CoroutineChunk(CoroutineRun):
    """A chunk that runs as a coroutine."""

    def aim(self, kind: type[OffsiderError], message: str, landed: Callable[[], None]) -> bool:
        """As `CoroutineRun`, but for a cancellation of one member, which would fail the others."""
        return kind is not JobCancelled and super().aim(kind, message, landed)


def perform(
    members: Sequence[WaitingMember],
    window: Window,
    limits: TimeLimits | None,
    overran: Callable[[UnitOfWork, Run], None],
    running: dict[UnitOfWork, Any],
) -> CoroutineChunk | BaseException | None:
    """Run the function of a chunk in this thread; return the error that it raised, or its coroutine.

    Args:
        members: those that have entered their middleware.
        running: gets the units with what reaches their run.
    """
    jobs: list[tuple[Any, UnitOfWork]] = [(member.run.job, member.unit) for member in members]
    calls = [cast("Any", member.run.coroutine).call for member in members]
    declared: Declared = jobs[0][0].declared
    chunk = end_watch = None
    try:
        _reach(jobs, running, ThreadChunk(window))
        if limits is not None:
            end_watch = limits.enforce_together(jobs, overran)
        with window:
            try:
                result = declared.perform_chunk(calls)
            finally:
                if this_process.stray:
                    came_back(jobs[0][0].payload)
        if declared.is_async:
            chunk = CoroutineChunk(result, end_watch)
            _reach(jobs, running, chunk)
    except BaseException as error:  # noqa: BLE001 - the outcome of the members
        return caught(error)
    finally:
        check_descriptors()
        if chunk is None and end_watch is not None:
            end_watch()
    return chunk


def _reach(jobs: list[tuple[Any, UnitOfWork]], running: dict[UnitOfWork, Any], reach: object) -> None:
    for job, unit in jobs:
        job.reach = running[unit] = reach
