"""The event loop of a capsule, on which its ``async def`` jobs run.

A processor's thread submits a coroutine to the loop and waits for it, asleep on a lock that the loop releases. So
middleware, context, outcome and settling are the same for both kinds of jobs, and the cancellation of a job cannot
interrupt the worker's bookkeeping.

A time limit is raised at the job's ``await``. The task is cancelled, and before the CancelledError enters the coroutine
it is replaced with the error of the limit, which is a CancelledError too. So the job may catch either, and asyncio
code in between cleans up as after any cancellation.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any

from offsider.core.errors import Shutdown
from offsider.core.tracebacks import origin_of
from offsider.runtime.context import current_job_or_none
from offsider.runtime.forks import came_back, here

#: A thread that waits longer than this for a coroutine gives up its seat. At the job's next run it does so at once.
SHORT_SECONDS = 0.005


class _Call:
    """A coroutine that a thread waits for. A late stop or time limit cannot hit the next coroutine of the thread."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, limited: bool) -> None:
        self._coroutine = coroutine
        self._limited = limited
        # The coroutine runs with the job's context variables: current_job and the log context.
        self._context = contextvars.copy_context()
        #: The loop releases it at the end of the coroutine.
        self.running = threading.Lock()
        self.running.acquire()
        self.task: asyncio.Task[Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        #: Other threads set `interrupted` and `limit`; only the loop uses the other attributes.
        self.interrupted = False
        self.limit: Callable[[], BaseException] | None = None

    def begin(self) -> None:
        steps = _Steps(self, self._coroutine, self._limit_that_lands if self._limited else None)
        self.task = asyncio.get_running_loop().create_task(steps, context=self._context)
        if self.interrupted or self.limit is not None:  # before the task was created
            self.task.cancel()
        self.task.add_done_callback(self._end)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self.task = None  # a cycle, which would keep the job until the next garbage collection
        if self.error is None:
            self.result = task.result()
        elif self.interrupted and _caused_by_cancellation(self.error):
            self.error = Shutdown()
        self.running.release()

    def _limit_that_lands(self) -> BaseException | None:
        make, self.limit = self.limit, None
        if make is None or self.interrupted:
            return None
        if self.task is not None:
            self.task.uncancel()  # later awaits of the job must work
        return make()


class AsyncRunner:
    """One event loop in a separate thread, started at the first coroutine.

    Args:
        name: name of the thread.
        long_wait: returns a context manager, in which a processor's thread waits for a long coroutine.
    """

    def __init__(self, name: str, long_wait: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self._name = name
        self._long_wait = long_wait
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        #: By the ident of the waiting thread.
        self._calls: dict[int, _Call] = {}
        #: Names of the jobs whose last run was long.
        self._long: set[str] = set()
        #: Calls that the loop has not begun yet. Waking the loop takes a system call, so one call wakes it for all.
        self._submitted: deque[_Call] = deque()
        self._woken = False

    def run(self, coroutine: Coroutine[Any, Any, Any], *, name: str = "", limited: bool = False) -> Any:
        """Run a coroutine to its end and return its result; called by a processor's thread.

        Args:
            name: the job. The length of its last run decides whether the thread gives up its seat at once.
            limited: whether the job has a time limit, so that `limit` may be called for it.

        Raises:
            Shutdown: `cancel` was called for this thread.
        """
        loop = self._ready()
        thread_id, call = threading.get_ident(), _Call(coroutine, limited=limited)
        self._calls[thread_id] = call
        try:
            self._submit(loop, call)
            long = name in self._long
            if long or not call.running.acquire(timeout=SHORT_SECONDS):
                self._long.add(name)
                started = time.monotonic()
                with self._long_wait():
                    call.running.acquire()
                if long and time.monotonic() - started < SHORT_SECONDS:
                    self._long.discard(name)
        finally:
            del self._calls[thread_id]
        result, error = call.result, call.error
        call.result = call.error = None  # frames of the job often refer to its task, and so to the call
        if error is not None:
            raise error
        return result

    def _submit(self, loop: asyncio.AbstractEventLoop, call: _Call) -> None:
        self._submitted.append(call)  # first: `_begin_all` takes the calls after it has reset `_woken`
        if not self._woken:
            try:
                self._woken = True
                loop.call_soon_threadsafe(self._begin_all)
            except BaseException:  # the error of a stop or of a time limit may be raised in this thread
                self._woken = False
                raise

    def _begin_all(self) -> None:
        self._woken = False
        while self._submitted:
            self._submitted.popleft().begin()

    def cancel(self, thread_id: int) -> bool:
        """Cancel the coroutine that a thread waits for, at its next ``await``; False if there is none."""
        loop, call = self._loop, self._calls.get(thread_id)
        if loop is None or call is None:
            return False
        call.interrupted = True
        loop.call_soon_threadsafe(call.cancel)
        return True

    def limit(self, thread_id: int, error: Callable[[], BaseException]) -> bool:
        """Raise ``error()`` at the next ``await`` of the coroutine that a thread waits for.

        Args:
            error: returns the error of a time limit, which must also be a CancelledError. Called on the loop, right
                before the error is raised.

        Returns:
            False if the thread waits for no coroutine.
        """
        loop, call = self._loop, self._calls.get(thread_id)
        if loop is None or call is None:
            return False
        call.limit = error
        loop.call_soon_threadsafe(call.cancel)
        return True

    def waits(self, thread_id: int) -> bool:
        """Return whether a thread waits for a coroutine."""
        return thread_id in self._calls

    @property
    def loop_thread_id(self) -> int | None:
        return None if self._thread is None else self._thread.ident

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that are on the loop now, for a dump."""
        return [call.task for call in self._calls.copy().values() if call.task is not None]

    def stop(self) -> None:
        """Stop the loop and cancel the tasks that still run on it."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=0.2)

    def _ready(self) -> asyncio.AbstractEventLoop:
        if (loop := self._loop) is not None:
            return loop
        with self._lock:
            if self._loop is None:
                started = threading.Event()
                self._woken = False
                # It must not inherit the context of the job that needs it first.
                context = contextvars.Context()
                self._loop = context.run(asyncio.new_event_loop)
                self._thread = threading.Thread(
                    target=context.run, args=(self._serve, self._loop, started), name=self._name, daemon=True
                )
                self._thread.start()
                started.wait()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(started.set)
        try:
            self._run(loop)
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:  # without tasks, gather asks the event loop policy, which the application may have replaced
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until `stop`, also after a SystemExit in a task of one job, which asyncio reraises."""
        while self._loop is loop:
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()


class _Steps(Coroutine[Any, Any, Any]):
    """Wraps the coroutine of a job, and checks after each step for a fork.

    A child that the job forks exits at the end of the step, before it could run a copy of the event loop. The error of
    the coroutine goes to the waiting thread, and not to the task: frames of the job often refer to their task, and such
    a cycle would keep them until the next garbage collection.

    Args:
        call: receives the error.
        coroutine: the coroutine of the job.
        limit: returns the error of a time limit, which replaces a CancelledError, or None for any other cancellation.
            None for a job without limits.
    """

    def __init__(
        self, call: _Call, coroutine: Coroutine[Any, Any, Any], limit: Callable[[], BaseException | None] | None
    ) -> None:
        self._call = call
        self._coroutine = coroutine
        self._limit = limit

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:  # noqa: ARG002
        error = kind if value is None else value
        if self._limit is not None and (isinstance(error, asyncio.CancelledError) or error is asyncio.CancelledError):
            error = self._limit() or error
        return self._step(self._coroutine.throw, error)

    def _step(self, step: Callable[[Any], Any], value: Any) -> Any:
        try:
            try:
                return step(value)
            finally:
                if here.stray:
                    job = current_job_or_none()
                    came_back(None if job is None else job.payload)
        except StopIteration:
            raise
        except BaseException as error:  # noqa: BLE001 - the outcome of the job
            self._call.error = error
            raise StopIteration from None

    def close(self) -> None:
        self._coroutine.close()

    @property
    def cr_frame(self) -> Any:
        """The frame for `asyncio.Task.get_stack`, which a dump calls."""
        return getattr(self._coroutine, "cr_frame", None)


def _caused_by_cancellation(error: BaseException) -> bool:
    """Return whether a cancellation caused ``error``, even if the job raised another exception from it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, asyncio.CancelledError):
            return True
        seen.add(id(current))
        current = origin_of(current)
    return False
