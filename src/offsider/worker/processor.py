"""A thread that runs jobs, one after the other.

1. Take a unit of work from the fetcher. The thread ends if the fetcher is quiet. A suspected poison pill waits until it
   can run alone in this process.
2. Run it: the executor returns an outcome. The coroutine of an ``async def`` job goes to the event loop of the capsule,
   and this thread takes the next job; steps 3 and 4 follow in another thread (`async_runner`).
3. Settle the outcome: `settlement` decides where the job goes, and the fetcher writes it with one script. The
   acknowledgement of a finished job may be sent together with others. The thread that reads the reply reports it
   (`report`).
4. Forget the run: steps 2 and 3 have a context of their own, and the frames of a failed job are cleared. What a job
   leaves behind would otherwise remain until the next job of this thread.

An error in these steps themselves ends the thread; the manager then starts another one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from offsider.client import Client
from offsider.core.error_text import clear_frames
from offsider.core.outcome import Interrupted, NotStarted, Succeeded
from offsider.core.payload import interrupted
from offsider.jobs.clients import pushing_with
from offsider.logs.setup import thread_id
from offsider.worker.run.async_runner import POLL_SECONDS
from offsider.worker.run.chunks import WAITING, CoroutineChunk, WaitingMember
from offsider.worker.run.interrupt import Injection
from offsider.worker.unit_of_work import Run

if TYPE_CHECKING:
    from offsider.core.clock import Clock
    from offsider.core.outcome import Outcome
    from offsider.runtime.context import Reach
    from offsider.worker.alive.isolation import Isolation
    from offsider.worker.fetch.fetcher import Fetcher
    from offsider.worker.run.async_runner import AsyncRunner
    from offsider.worker.run.chunks import Chunks, ReadyChunk
    from offsider.worker.run.executor import Executor
    from offsider.worker.settle.settlement import Settlement
    from offsider.worker.unit_of_work import UnitOfWork
    from offsider.worker.work_state import WorkState


@dataclass(frozen=True, slots=True)
class CapsuleParts:
    """Objects that the processors of one capsule share.

    Attributes:
        client: pushes the jobs that running jobs enqueue.
        rescue: requeues or buries the job of a thread or a coroutine that could not be settled because of an error.
        chunks: the members of chunks that wait.
        isolation: decides which jobs must run alone, and when they may.
        interrupted: jobs that a stop has interrupted; its last step requeues them together.
    """

    client: Client
    clock: Clock
    fetcher: Fetcher
    settlement: Settlement
    work_state: WorkState
    async_runner: AsyncRunner
    rescue: Callable[[UnitOfWork, BaseException], None]
    chunks: Chunks
    isolation: Isolation | None = None
    interrupted: list[UnitOfWork] = field(default_factory=list["UnitOfWork"])


class Processor:
    """One thread of a capsule.

    Args:
        died: called in the dying thread with this processor and the error; not called at a normal end.
    """

    def __init__(
        self, name: str, parts: CapsuleParts, executor: Executor, died: Callable[[Processor, BaseException], None]
    ) -> None:
        self._parts = parts
        self._fetcher = parts.fetcher
        self._executor = executor
        self._settlement = parts.settlement
        self._work_state = parts.work_state
        self._clock = parts.clock
        self._died = died
        self._tid = ""
        self._unit: UnitOfWork | None = None
        self._started = False
        #: The members of the chunk that this thread runs.
        self._chunk: Sequence[WaitingMember] = ()
        #: Its job has failed but still runs; the manager no longer waits for this thread.
        self.given_up = False
        # A thread that is started inside a job does not inherit the job's context variables.
        self._thread = threading.Thread(target=Context().run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_seconds: float | None) -> bool:
        """Wait for the thread to end; True when it has."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def unit(self) -> UnitOfWork | None:
        """The current unit; for a dead processor, its unsettled one."""
        return self._unit

    def unsettled(self) -> tuple[UnitOfWork, bytes] | None:
        """Return the job and the payload to requeue; a started job has its ``interrupted_count`` incremented."""
        unit = self._unit
        if unit is None or unit.settled:
            return None
        return unit, interrupted(unit.raw) if self._started else unit.raw

    def unsettled_members(self) -> list[tuple[UnitOfWork, bytes]]:
        """As `unsettled`, for the members of the chunk that this thread runs."""
        return [
            (unit, unit.raw if run.coroutine is WAITING else interrupted(unit.raw))
            for unit, run, _ in self._chunk
            if not unit.settled
        ]

    def reach(self, unit: UnitOfWork) -> Reach:
        """Return what raises errors in the run of this unit, while this thread runs it."""
        return self._executor.child_run or Injection(self._executor.window, lambda: self._unit is unit)

    def interrupt(self) -> None:
        """Interrupt the running job, if possible."""
        if (child_run := self._executor.child_run) is not None:
            child_run.interrupt()
        self._executor.window.interrupt()

    def runs(self, unit: UnitOfWork) -> bool:
        """Return whether this thread runs the job, by itself or in a chunk."""
        return self._unit is unit or any(member.unit is unit for member in self._chunk)

    def _run(self) -> None:
        try:
            with pushing_with(self._parts.client):
                self._tid = thread_id()
                self._serve()
        except BaseException as error:  # noqa: BLE001 - the last words of a thread
            self._died(self, error)

    def _serve(self) -> None:
        isolation, retrieve = self._parts.isolation, self._fetcher.retrieve
        outer = copy_context()
        while (unit := retrieve()) is not None:
            context = outer.copy()
            if isolation is not None and isolation.is_suspect(unit):
                self._process_alone(unit, isolation, context)
            else:
                left = context.run(self._process, unit)
                if left is not None:
                    self._follow_up(unit, left, context)
                del left
            del unit, context

    def _process_alone(self, unit: UnitOfWork, isolation: Isolation, context: Context) -> None:
        """Run a suspect while no other job runs here, or requeue it at the tail of its queue."""
        self._unit = unit
        with isolation.alone(unit) as granted:
            if granted:
                left = context.run(self._process, unit)
                if left is not None:
                    self._follow_up(unit, left, context)
                self._parts.async_runner.wait_for(unit)
            else:
                not_alone = Run(None, NotStarted("queue", name="not alone"), self._clock.now(), 0.0, None)
                context.run(self._settlement.settle, unit, not_alone)
        self._unit = None

    def _process(self, unit: UnitOfWork) -> BaseException | Run | None:
        """Run and settle a job; return the error that it ended with, or its run if it has a coroutine."""
        started_at = self._clock.now()
        self._started = True
        self._unit = unit
        self._work_state.begin(self._tid, unit, started_at)
        try:
            run = self._executor.run(unit, started_at)
        except BaseException:
            self._work_state.end(unit)
            raise
        if run.coroutine is not None:
            return run
        failure = self._settle(unit, run, self._settlement.settle)
        self._unit = None
        self._started = False
        return failure

    def _follow_up(self, unit: UnitOfWork, left: BaseException | Run, context: Context) -> None:
        """Start the coroutine of a job, or forget the error of one that has ended."""
        if not isinstance(left, Run):
            clear_frames(left)
        elif left.coroutine is WAITING:
            self._work_state.end(unit)
            ready = self._parts.chunks.add(WaitingMember(unit, left, context))
            self._unit = None
            self._started = False
            if ready is not None:
                self._run_chunk(ready)
        elif left.coroutine is not None:
            runner = self._parts.async_runner
            self._work_state.begin(runner.next_tid(), unit, left.started_at)
            runner.start(unit, left.coroutine, context, partial(self._finish, unit, left, context))
            self._unit = None
            self._started = False

    def _run_chunk(self, ready: ReadyChunk) -> None:
        """Run the function of a chunk once, or start its coroutine, and settle the members."""
        self._chunk = ready.members
        try:
            if ready.starts:
                self._run_members(ready.members)
            else:
                self._refuse(ready.members, Interrupted(has_started=False))
        except BaseException as error:
            for member in ready.members:
                if not member.unit.settled:
                    self._parts.async_runner.running.pop(member.unit, None)
                    self._work_state.end(member.unit)
                    self._parts.rescue(member.unit, error)
            raise
        finally:
            self._chunk = ()

    def _run_members(self, members: Sequence[WaitingMember]) -> None:
        runner = self._parts.async_runner
        unit, run, _ = members[0]
        job: Any = run.job
        is_async = job.declared.is_async
        if is_async and not self._executor.take_seat(run, job, unit):
            self._refuse(members, run.outcome)
            return
        started = [member for member in members if self._start_member(member)]
        context = copy_context()
        ended = context.run(self._executor.perform_chunk, started) if started else None
        if isinstance(ended, CoroutineChunk):
            runner.start(started[0].unit, ended, context, partial(self._finish_chunk, started, ended))
            return
        if is_async:
            runner.leave_seat()
        self._finish_chunk(started, ended)

    def _refuse(self, members: Sequence[WaitingMember], outcome: Outcome) -> None:
        for member in reversed(members):  # each goes to the head of its queue
            member.run.coroutine, member.run.outcome = None, outcome
            self._finish(*member)

    def _start_member(self, member: WaitingMember) -> bool:
        """Enter the middleware of a member; False if it has been settled."""
        unit, run, context = member
        run.started_at = self._clock.now()
        self._work_state.begin(self._parts.chunks.next_tid(self._tid), unit, run.started_at)
        try:
            context.run(self._executor.start_member, unit, run)
        except BaseException as error:  # noqa: BLE001 - the other members must not be lost
            self._work_state.end(unit)
            self._parts.rescue(unit, error)
            return False
        if run.coroutine is None:
            self._finish(*member)
        return run.coroutine is not None

    def _finish_chunk(self, members: Sequence[WaitingMember], ended: CoroutineChunk | BaseException | None) -> None:
        """Finish and settle the members of a chunk, each with its own error or that of the function."""
        is_coroutine = isinstance(ended, CoroutineChunk)
        error = ended.error if isinstance(ended, CoroutineChunk) else ended
        errors = [error]
        for _, run, context in reversed(members):  # middleware may keep a stack for its thread
            place: Any = run.coroutine
            place.error = error if place.call.error is None else place.call.error
            with suppress(RuntimeError):  # a task is in its context: `_finish` waits for it
                context.run(self._executor.finish, run)
        for member in members:
            errors.append(self._finish(*member))
            if not (is_coroutine and member is members[0]):  # the runner removes that one
                self._parts.async_runner.running.pop(member.unit, None)
        for each in errors:
            if each is not None:
                clear_frames(each)

    def _finish(self, unit: UnitOfWork, run: Run, context: Context) -> BaseException | None:
        """Finish and settle the run of a coroutine that has ended, in a finishing thread; return the job's error."""
        while True:
            try:
                return context.run(self._finish_inside, unit, run)
            except BaseException as error:  # noqa: BLE001 - the thread has other runs to finish
                if run.coroutine is None:
                    self._parts.rescue(unit, error)
                    return None
            # A task that the job left behind, with the context of the job, is in it at the moment.
            time.sleep(POLL_SECONDS)

    def _finish_inside(self, unit: UnitOfWork, run: Run) -> BaseException | None:
        self._executor.finish(run)
        is_last = self._parts.async_runner.interrupted and type(run.outcome) is Interrupted
        if is_last and run.job is not None and not run.job.effects:
            return self._settle(unit, run, self._leave_to_the_stop)
        return self._settle(unit, run, self._settlement.settle)

    def _leave_to_the_stop(self, unit: UnitOfWork, run: Run) -> None:
        unit.run = run
        self._parts.interrupted.append(unit)

    def _settle(self, unit: UnitOfWork, run: Run, settle: Callable[[UnitOfWork, Run], None]) -> BaseException | None:
        """Settle a run, and return the error that the job ended with."""
        try:
            settle(unit, run)
        finally:
            self._work_state.end(unit)
        job = run.job
        if job is not None and (job.control is not None or job.wrappers):
            job.ended()
        return None if type(run.outcome) is Succeeded else getattr(run.outcome, "error", None)


class ChunkProcessor(Processor):
    """A thread for the chunks that start before they are full, and for those that go back."""

    def _serve(self) -> None:
        with closing(self._parts.chunks.due()) as due:
            for ready in due:
                self._run_chunk(ready)
