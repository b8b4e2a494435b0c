"""The event loop of a capsule, on which its ``async def`` jobs run.

A processor's thread hands a coroutine to the loop and waits for it: middleware, context, outcome and
settling are the same for both kinds of jobs, and a cancelled job cannot take our bookkeeping with it.

A time limit is raised at the job's ``await``: the task is cancelled, and on its way into the coroutine the
CancelledError becomes the limit's error, which is a CancelledError too. So the job may catch either, and whatever
of asyncio stands in between cleans up as at any cancellation.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

from offsider.core.errors import Shutdown


class AsyncRunner:
    """One event loop in a thread of its own, started at the first coroutine.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._waiting: set[int] = set()
        self._interrupted: set[int] = set()
        self._limited: dict[int, Callable[[], BaseException]] = {}

    def run(self, coroutine: Coroutine[Any, Any, Any], *, limited: bool = False) -> Any:
        """Run a coroutine to its end and answer its result; called by a processor's thread.

        Args:
            limited: it has a time limit, so `limit` may be called for it.

        Raises:
            Shutdown: `cancel` was called for this thread.
        """
        done: Future[Any] = Future()
        thread_id = threading.get_ident()
        # The job's context variables (current_job and the log context) go with it.
        context = contextvars.copy_context()
        loop = self._ready()
        if limited:
            coroutine = _Limited(coroutine, partial(self._limit_of, thread_id))
        # A limit that fired while this thread's last coroutine was just ending is not for this one.
        self._limited.pop(thread_id, None)
        self._waiting.add(thread_id)
        try:
            loop.call_soon_threadsafe(self._begin, coroutine, done, thread_id, context)
            return done.result()
        finally:
            self._waiting.discard(thread_id)

    def _begin(
        self, coroutine: Coroutine[Any, Any, Any], done: Future[Any], thread_id: int, context: contextvars.Context
    ) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, context=context)
        self._running[thread_id] = task
        if thread_id in self._interrupted or thread_id in self._limited:  # before it could begin
            task.cancel()
        task.add_done_callback(lambda task: self._end(task, done, thread_id))

    def _end(self, task: asyncio.Task[Any], done: Future[Any], thread_id: int) -> None:
        self._running.pop(thread_id, None)
        interrupted = thread_id in self._interrupted
        self._interrupted.discard(thread_id)
        self._limited.pop(thread_id, None)
        error = _cancellation_of(task) if task.cancelled() else task.exception()
        if error is None:
            done.set_result(task.result())
        elif interrupted and _caused_by_cancellation(error):
            done.set_exception(Shutdown())
        else:
            done.set_exception(error)

    def cancel(self, thread_id: int) -> bool:
        """Cancel the coroutine that a thread waits for; it ends at its next ``await``. False if there is none."""
        loop = self._loop
        if loop is None or thread_id not in self._waiting:
            return False
        self._interrupted.add(thread_id)
        loop.call_soon_threadsafe(self._cancel, thread_id)
        return True

    def limit(self, thread_id: int, error: Callable[[], BaseException]) -> bool:
        """Raise what ``error()`` makes at the next ``await`` of the coroutine that a thread waits for.

        Args:
            error: makes a CancelledError that is also the error of a time limit. Called on the loop, when it lands.

        Returns:
            False when the thread waits for no coroutine.
        """
        loop = self._loop
        if loop is None or not self.waits(thread_id):
            return False
        self._limited[thread_id] = error
        loop.call_soon_threadsafe(self._cancel, thread_id)
        return True

    def waits(self, thread_id: int) -> bool:
        """Whether a thread waits for a coroutine."""
        return thread_id in self._waiting

    @property
    def loop_thread_id(self) -> int | None:
        return None if self._thread is None else self._thread.ident

    def _limit_of(self, thread_id: int) -> BaseException | None:
        make = self._limited.pop(thread_id, None)
        if make is None or thread_id in self._interrupted:
            return None
        task = self._running.get(thread_id)
        if task is not None:
            task.uncancel()  # what the job does next is not cancelled
        return make()

    def _cancel(self, thread_id: int) -> None:
        task = self._running.get(thread_id)
        if task is not None:
            task.cancel()

    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are on the loop right now, for a dump."""
        return list(self._running.values())

    def stop(self) -> None:
        """End the loop; what still runs on it is cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=0.2)

    def _ready(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                started = threading.Event()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop, started), name=self._name, daemon=True
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
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until `stop`. No job may end it for all, by SystemExit, which asyncio lets through, or else."""
        while self._loop is loop:
            # What was raised is the outcome of its job already, or nobody's: that of a task left behind.
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()


def _cancellation_of(task: asyncio.Task[Any]) -> BaseException:
    """What ended a cancelled task: the error of a time limit, when it was one."""
    try:
        task.exception()
    except asyncio.CancelledError as error:
        return error
    return asyncio.CancelledError()


class _Limited(Coroutine[Any, Any, Any]):
    """A coroutine into which a CancelledError comes as the error of a time limit, when there is one."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], limit: Callable[[], BaseException | None]) -> None:
        self._coroutine = coroutine
        self._limit = limit

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:  # noqa: ARG002
        error = kind if value is None else value
        if isinstance(error, asyncio.CancelledError) or error is asyncio.CancelledError:
            error = self._limit() or error
        return self._coroutine.throw(error)

    def close(self) -> None:
        self._coroutine.close()

    @property
    def cr_frame(self) -> Any:
        """For `asyncio.Task.get_stack`, which a dump asks."""
        return getattr(self._coroutine, "cr_frame", None)


def _caused_by_cancellation(error: BaseException) -> bool:
    """Whether the coroutine was on its way out because it was cancelled, whatever it made of that."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, asyncio.CancelledError):
            return True
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return False
