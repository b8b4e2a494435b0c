"""The coroutine of one run, on the event loop of its capsule.

A time limit is raised at the job's ``await``. The task is cancelled, and before the CancelledError enters the coroutine
it is replaced with the error of the limit, which is a CancelledError too. So the job may catch either, and asyncio
code in between cleans up as after any cancellation.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from types import FrameType, TracebackType
from typing import Any

from offsider.core.errors import OffsiderError, Shutdown
from offsider.runtime.context import current_job_or_none
from offsider.runtime.forks import came_back, this_process
from offsider.worker.run.interrupt import caused_by, line_of, place_of, reporting


class CoroutineRun:
    """The coroutine of one run, which stops, time limits and cancellations reach on its event loop.

    Attributes:
        result, error: how the coroutine ended.
        ended: called on the loop when the coroutine has ended.
        given_up: its job has failed but still runs; the stop does not wait for it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], ended: Callable[[], object] | None = None) -> None:
        self._coroutine = coroutine
        self.ended = ended
        self.result: Any = None
        self.error: BaseException | None = None
        self.given_up = False
        self.task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None
        self._has_ended = False
        # Other threads set these; only the loop uses all others until the end.
        self._interrupted = False
        self._limit: Callable[[], BaseException] | None = None

    def begin(self, context: Context, finish: Callable[[], None]) -> None:
        """Start the task, on the loop; call ``finish`` there when it has ended."""
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        try:
            task: asyncio.Task[Any] = self._loop.create_task(_Steps(self, self._coroutine), context=context)
        except Exception as error:  # noqa: BLE001 - of a task factory of the application: a failure of the job
            self._coroutine.close()
            self.error = error
            self._end(finish, None)
            return
        self.task = task
        if self._interrupted or self._limit is not None:  # before the task was created
            task.cancel()
        task.add_done_callback(partial(self._end, finish))

    def interrupt(self) -> None:
        """Cancel the coroutine because of a stop, at its next ``await``."""
        self._interrupted = True
        self._cancel_soon()

    def aim(self, kind: type[OffsiderError], message: str, landed: Callable[[], None]) -> bool:
        """Raise ``kind(message)`` at the next ``await`` of the job; then call ``landed``, a method, on the loop.

        Returns:
            False if the coroutine has ended.
        """
        if self._has_ended:
            return False
        self._limit = reporting(kind, message, landed, asyncio.CancelledError)
        self._cancel_soon()
        return True

    def kill(self, error: OffsiderError) -> bool:  # noqa: ARG002
        """Return False: it shares its thread with others."""
        return False

    def place(self) -> str:
        """Return the line that the job executes or waits in; empty if it has not begun or has ended."""
        if self._has_ended or self._loop_thread is None:
            return ""
        waits_in = [] if getattr(self._coroutine, "cr_running", True) else self.frames()
        return line_of(waits_in[-1]) if waits_in else place_of(self._loop_thread)

    def frames(self) -> list[FrameType]:
        """Return the frames of the job, the outermost first, also those below its wrappers."""
        frames: list[FrameType] = []
        awaited: Any = self._coroutine
        while (frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)) is not None:
            frames.append(frame)
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        return frames

    def limit_that_lands(self) -> BaseException | None:
        """Return the error that replaces the CancelledError of a task, on the loop; None for another cancellation."""
        make, self._limit = self._limit, None
        if make is None or self._interrupted:
            return None
        if self.task is not None:
            self.task.uncancel()  # later awaits of the job must work
        return make()

    def _cancel_soon(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: its coroutines have been cancelled
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def _end(self, finish: Callable[[], None], task: asyncio.Task[Any] | None) -> None:
        self.task = None  # a cycle, which would keep the job until the next garbage collection
        self._has_ended = True
        try:
            self.result = None if task is None else task.result()
        except BaseException as error:  # noqa: BLE001 - of a task factory that awaits the coroutine itself
            self.error = error
        if self.error is not None and self._interrupted and caused_by(asyncio.CancelledError, self.error):
            self.error = Shutdown()
        if self.ended is not None:
            self.ended()
            self.ended = None  # as above
        finish()


class _Steps(Coroutine[Any, Any, Any]):
    """Wraps the coroutine of a job, and checks after each step for a fork.

    A child that the job forks exits at the end of the step, before it could run a copy of the event loop. The error of
    the coroutine goes to its run, and not to the task: frames of the job often refer to their task, and such a cycle
    would keep them until the next garbage collection.
    """

    def __init__(self, run: CoroutineRun, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._run = run
        self._coroutine = coroutine

    def __await__(self) -> Any:
        return self  # not the coroutine: a task factory may await it in a coroutine of its own

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:  # noqa: ARG002
        error = kind if value is None else value
        if isinstance(error, asyncio.CancelledError) or error is asyncio.CancelledError:
            error = self._run.limit_that_lands() or error
        return self._step(self._coroutine.throw, error)

    def _step(self, step: Callable[[Any], Any], value: Any) -> Any:
        try:
            try:
                return step(value)
            finally:
                if this_process.stray:
                    job = current_job_or_none()
                    came_back(None if job is None else job.payload)
        except StopIteration:
            raise
        except BaseException as error:  # noqa: BLE001 - the outcome of the job
            self._run.error = error
            raise StopIteration from None

    def close(self) -> None:
        self._coroutine.close()

    @property
    def cr_frame(self) -> Any:
        """The frame for `asyncio.Task.get_stack`, which a dump calls."""
        return getattr(self._coroutine, "cr_frame", None)
