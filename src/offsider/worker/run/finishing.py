"""Threads that finish ended coroutines: they leave the middleware and settle the job.

1. The event loop adds what is to do. If all threads sleep, it wakes the one that slept last, for everything that is
   added until this thread runs; so a wake-up serves many coroutines.
2. If the oldest addition has waited for MAX_WAIT_SECONDS, because the others are in middleware that blocks, it wakes or
   starts another thread. So neither middleware nor long jobs in threads delay other coroutines.
3. A thread ends after IDLE_SECONDS without work, unless it is the only one.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context

from offsider.core.error_text import clear_frames

MAX_WAIT_SECONDS = 0.005
IDLE_SECONDS = 1.0

_thread = threading.local()


def takes_jobs() -> bool:
    """Return whether this thread will take another job, unlike one that only finishes coroutines."""
    return not getattr(_thread, "finishes", False)


class FinishingThreads:
    """The finishing threads of one capsule. `add` is called on its event loop only.

    Args:
        name: prefix of the names of the threads.
        most: maximum number of threads.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        #: What is to do, each with the time when it was added, in monotonic seconds.
        self._waiting: deque[tuple[float, Callable[[], BaseException | None]]] = deque()
        self._lock = threading.Lock()
        self._threads = 0
        self._numbers = itertools.count(1)
        #: A lock for each sleeping thread, which wakes when it is released.
        self._sleeping: list[threading.Lock] = []
        self._check: asyncio.TimerHandle | None = None
        self._stopped = False

    def add(self, loop: asyncio.AbstractEventLoop, finish: Callable[[], BaseException | None]) -> None:
        """Have a thread call ``finish``, which raises no error, but returns one whose frames have to be cleared."""
        self._waiting.append((time.monotonic(), finish))
        with self._lock:
            if self._threads == len(self._sleeping):
                self._wake()
        if self._check is None:
            self._check = loop.call_later(MAX_WAIT_SECONDS, self._help, loop)

    def stop(self) -> None:
        """End the threads when all is finished."""
        with self._lock:
            self._stopped = True
            while self._sleeping:
                self._wake()

    def _help(self, loop: asyncio.AbstractEventLoop) -> None:
        self._check = None
        try:
            left_seconds = self._waiting[0][0] + MAX_WAIT_SECONDS - time.monotonic()
        except IndexError:
            return
        if left_seconds <= 0:
            left_seconds = MAX_WAIT_SECONDS
            with self._lock:
                self._wake()
        self._check = loop.call_later(left_seconds, self._help, loop)

    def _wake(self) -> None:
        """Wake a thread or start one; the caller has the lock."""
        if self._sleeping:
            self._sleeping.pop().release()
        elif self._threads < self._most:
            name = f"{self._name}-{next(self._numbers)}"
            # It must not inherit the context of the loop's thread.
            thread = threading.Thread(target=Context().run, args=(self._serve,), name=name, daemon=True)
            with suppress(RuntimeError):  # the system has no more threads: `_help` tries again
                thread.start()
                self._threads += 1

    def _serve(self) -> None:
        _thread.finishes = True
        while True:
            try:
                _, finish = self._waiting.popleft()
            except IndexError:
                if not self._sleep():
                    return
            else:
                with suppress(BaseException):  # of an error handler, as SystemExit; a thread that ends is not replaced
                    failure = finish()
                    if failure is not None:  # here, where no frame behind it has the run
                        clear_frames(failure)
                    del failure
                del finish

    def _sleep(self) -> bool:
        """Sleep until there is something to do; False if the thread has to end."""
        bell = threading.Lock()
        bell.acquire()
        with self._lock:
            if self._waiting:
                return True
            if self._stopped:
                self._threads -= 1
                return False
            self._sleeping.append(bell)
            is_only = self._threads == 1
        if bell.acquire(timeout=-1 if is_only else IDLE_SECONDS):
            return True
        with self._lock:
            if bell not in self._sleeping:  # it was woken just now
                return True
            self._sleeping.remove(bell)
            is_last = self._threads == 1
            self._threads -= not is_last
            return is_last
