"""Threads for the blocking calls of event loops: a loop's own threads are few, and its application needs them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from offsider.runtime.forks import this_process

#: A thread ends after this time without a call.
IDLE_SECONDS = 1.0
T = TypeVar("T")


class LoopThreads:
    """Runs blocking calls of coroutines, in their context. Thread-safe; works in a forked child.

    No exit waits for the threads.

    Args:
        size: the maximum number of calls at the same time.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._running = self._idle = 0
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        # Last: a thread that reads the new pid must not find the parent's lock.
        self._pid = this_process.pid

    async def run(
        self, call: Callable[[], T], seconds: float = 0.0, too_late: Callable[[], Exception] | None = None
    ) -> T:
        """Return what ``call`` returns. It does not run if the caller is cancelled before its turn.

        Raises:
            Exception: that of ``too_late``, if its turn has not come after these seconds.
        """
        if self._pid != this_process.pid:
            self._reset()  # the threads of the parent do not exist here
        future: Future[T] = Future()
        with self._changed:
            if len(self._calls) < self._idle:
                self._changed.notify()
            elif self._running < self.size:
                try:
                    threading.Thread(target=self._run, name="offsider-loop", daemon=True).start()
                    self._running += 1
                except RuntimeError:  # the process can start no more threads
                    if not self._running:
                        return call()  # at the exit of the interpreter, which no loop outlives
            waiting = future, partial(copy_context().run, call)
            self._calls.append(waiting)
        if too_late is None:
            return await asyncio.wrap_future(future)
        timer = asyncio.get_running_loop().call_later(seconds, self._give_up, waiting, too_late)
        try:
            return await asyncio.wrap_future(future)
        finally:
            timer.cancel()

    def _give_up(self, waiting: tuple[Future[Any], Callable[[], Any]], too_late: Callable[[], Exception]) -> None:
        with self._changed:
            if waiting not in self._calls:  # it runs
                return
            self._calls.remove(waiting)
        waiting[0].set_exception(too_late())

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            future, call = taken
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - raised where the loop waits
                    future.set_exception(error)
            del taken, future, call  # they refer to the loop

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._calls, IDLE_SECONDS)
            self._idle -= 1
            if self._calls:
                return self._calls.popleft()
            self._running -= 1
            return None
