"""The event loop of a capsule, on which its ``async def`` jobs run without a thread of their own.

1. A processor's thread takes a seat for its job, enters the middleware, and passes the coroutine on. It takes the next
   job at once. If all seats are taken, it first waits for one.
2. The loop runs the coroutine in the context of the run.
3. When the coroutine has ended, a finishing thread (`finishing`) leaves the middleware and settles the job, in the same
   context; then the seat is free. Cancellation cannot interrupt that.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from offsider.logs.setup import thread_id
from offsider.worker.run.finishing import FinishingThreads

if TYPE_CHECKING:
    from offsider.worker.run.coroutine_run import CoroutineRun
    from offsider.worker.unit_of_work import UnitOfWork

#: Interval between two checks for running coroutines at a stop, or while a job must run alone.
POLL_SECONDS = 0.01


class AsyncRunner:
    """One event loop in a separate thread, started with the first coroutine; and the seats of its coroutines.

    Args:
        name: prefix of the names of its threads.
        seats: maximum number of coroutines that run at the same time.
        finishers: maximum number of threads that finish ended runs.

    Attributes:
        running: the coroutines whose jobs are not settled yet.
        interrupted: the worker stops, and no longer waits for its jobs.
    """

    def __init__(self, name: str, seats: int = 100, finishers: int = 1) -> None:
        self._name = f"{name}-loop"
        self._finishing = FinishingThreads(f"{name}-finishing", finishers)
        self.running: dict[UnitOfWork, CoroutineRun] = {}
        self._free_seats = seats
        self._seats = threading.Lock()  # `with` on a lock takes a tenth of the time of one on a condition
        self._seat_left = threading.Condition(self._seats)
        self._waiting = 0
        self._quiet = self.interrupted = False
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tid = ""
        self._numbers = itertools.count(1)
        #: Coroutines that the loop has not begun yet. Waking the loop takes a system call, so one call wakes it for
        #: all.
        self._submitted: deque[Callable[[], None]] = deque()
        self._woken = False

    # --- seats ------------------------------------------------------------------------------------

    def take_seat(self) -> bool:
        """Wait for a free seat and take it; False once the worker is quiet. Raises the error of starting the loop."""
        if not self._quiet:
            self._ready()  # here, where nothing has to be released if it fails
        with self._seats:
            self._waiting += 1
            while not (self._free_seats > 0 or self._quiet):
                self._seat_left.wait()
            self._waiting -= 1
            self._free_seats -= 1
            return not self._quiet

    def leave_seat(self) -> None:
        with self._seats:
            self._free_seats += 1
            if self._waiting:
                self._seat_left.notify()

    def quiet(self) -> None:
        """Give no more seats, and wake the threads that wait for one."""
        with self._seats:
            self._quiet = True
            self._seat_left.notify_all()

    # --- coroutines -------------------------------------------------------------------------------

    def start(
        self,
        unit: UnitOfWork,
        coroutine: CoroutineRun,
        context: contextvars.Context,
        finish: Callable[[], BaseException | None],
    ) -> None:
        """Run a coroutine, whose job has a seat; at its end, a finishing thread calls ``finish``.

        Args:
            context: of the run. No thread may be in it.
            finish: settles the job, raises no error, and returns that of the job.
        """
        loop = self._ready()
        self.running[unit] = coroutine
        if self.interrupted:
            coroutine.interrupt()
        # Not a closure: a frame behind an error of the job would keep it, and thereby the run.
        end = partial(self._finishing.add, loop, partial(self._finish, unit, finish))
        self._submitted.append(partial(coroutine.begin, context, end))
        # After that: `_begin_all` takes the coroutines after it has reset `_woken`.
        if not self._woken:
            self._woken = True
            loop.call_soon_threadsafe(self._begin_all)

    def _begin_all(self) -> None:
        self._woken = False
        while self._submitted:
            self._submitted.popleft()()

    def _finish(self, unit: UnitOfWork, finish: Callable[[], BaseException | None]) -> BaseException | None:
        try:
            return finish()
        finally:
            del self.running[unit]
            self.leave_seat()

    def next_tid(self) -> str:
        """Return a name for a running coroutine: the id of the loop's thread as in log lines, and a number."""
        self._ready()
        return f"{self._tid}-{next(self._numbers)}"

    def interrupt(self) -> None:
        """Cancel all coroutines, also later ones, because the worker stops."""
        self.interrupted = True
        for coroutine in self.running.copy().values():
            coroutine.interrupt()

    def give_up(self, unit: UnitOfWork) -> None:
        """Do not wait for this job any more, if it is a coroutine."""
        coroutine = self.running.get(unit)
        if coroutine is not None:
            coroutine.given_up = True

    def wait(self, deadline: float) -> bool:
        """Wait until all jobs are settled, or until ``deadline`` (monotonic seconds); True if all are."""
        while waiting := any(not coroutine.given_up for coroutine in self.running.copy().values()):
            pause_seconds = min(POLL_SECONDS, deadline - time.monotonic())
            if pause_seconds <= 0:
                break
            time.sleep(pause_seconds)
        return not waiting

    def wait_for(self, unit: UnitOfWork) -> None:
        """Wait until a coroutine's job is settled or given up."""
        while (coroutine := self.running.get(unit)) is not None and not coroutine.given_up:
            time.sleep(POLL_SECONDS)

    # --- the loop ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the loop, cancel the tasks that still run on it, and end the finishing threads."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=0.2)
        self._finishing.stop()

    def _ready(self) -> asyncio.AbstractEventLoop:
        if (loop := self._loop) is not None:
            return loop
        with self._lock:
            if self._loop is None:
                started = threading.Event()
                self._woken = False
                # It must not inherit the context of the job that needs it first.
                context = contextvars.Context()
                loop = context.run(asyncio.new_event_loop)
                self._thread = threading.Thread(
                    target=context.run, args=(self._serve, loop, started), name=self._name, daemon=True
                )
                try:
                    self._thread.start()
                except BaseException:
                    self._thread = None
                    loop.close()
                    raise
                started.wait()
                self._loop = loop
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        self._tid = thread_id()
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
        while self._thread is threading.current_thread():
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()
