"""Background services: everything that runs periodically in a thread starts, stops and fails the same way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

from offsider.runtime.forks import came_back, this_process

OnError: TypeAlias = Callable[[BaseException, dict[str, object]], None]

PAUSE_AFTER_ERROR_SECONDS = 1.0


class Service(Protocol):
    """A background service that the launcher starts and stops."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Start the service, once. Does nothing after `stop`."""
        ...

    def stop(self) -> None:
        """Request the end and return at once. May be called twice, before `start`, and during a sleep."""
        ...

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; return True if the service has ended or never started."""
        ...


class Loop:
    """A named daemon thread that calls ``tick`` repeatedly.

    1. `start` calls the first tick at once.
    2. ``tick`` returns the seconds until the next one, or None to end the loop.
    3. `wake` ends the sleep between two ticks; during a tick, it ends the next sleep.
    4. An Exception in a tick is reported to ``on_error`` and the loop continues after one second. Any other
       BaseException is reported and ends the thread.
    5. `stop` ends the sleep and the loop. Then the thread calls ``finish``; not if the loop has not started.
    6. `join` waits for the end.

    Args:
        name: name of the thread, also in reports.
        tick: the work.
        on_error: called with the error and ``{"service": name}``.
        finish: work left after `stop`, such as to release a lease.

    Attributes:
        ticks: number of finished ticks, including failed ones.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], float | None],
        on_error: OnError,
        finish: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = name
        self._tick = tick
        self._on_error = on_error
        self._finish = finish
        self._stopping = threading.Event()
        self._wakeup = threading.Event()
        self._starting = threading.Lock()
        self.ticks = 0
        self._thread: threading.Thread | None = None
        self._pid = 0

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread; a second call does nothing."""
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopping.is_set():
                self._pid = this_process.pid
                thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                thread.start()
                self._thread = thread  # not before: only a started thread can be joined

    def stop(self) -> None:
        """End the loop after the current tick, without waiting for it."""
        self._stopping.set()
        self._wakeup.set()

    def wake(self) -> None:
        """Start the next tick now."""
        self._wakeup.set()

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; return True if the loop has ended or never started."""
        thread = self._thread
        if thread is None:
            return True
        if thread is threading.current_thread():
            return False
        thread.join(timeout_seconds)
        return not thread.is_alive()

    def _run(self) -> None:
        self._thread = threading.current_thread()
        try:
            while not self._stopping.is_set():
                pause_seconds = self._tick_safely()
                if pause_seconds is None:
                    break
                self._wakeup.wait(max(0.0, pause_seconds))
                self._wakeup.clear()
            self._finish()
        except BaseException as error:  # noqa: BLE001  # no caller sees the errors of a thread
            self._report_error(error)

    def _tick_safely(self) -> float | None:
        try:
            return self._tick()
        except Exception as error:  # noqa: BLE001  # a failed tick must not end the service
            self._report_error(error)
            return PAUSE_AFTER_ERROR_SECONDS
        finally:
            if this_process.pid != self._pid:  # a handler forked
                came_back()
            self.ticks += 1

    def _report_error(self, error: BaseException) -> None:
        self._on_error(error, {"service": self.name})
