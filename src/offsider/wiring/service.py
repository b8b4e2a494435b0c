"""Background work of one kind: everything that ticks in a thread starts, stops and fails the same way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

OnError: TypeAlias = Callable[[BaseException, dict[str, object]], None]

PAUSE_AFTER_ERROR_SECONDS = 1.0


class Service(Protocol):
    """Something the launcher starts and stops."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Begin. Once in a lifetime; after `stop` nothing begins any more."""
        ...

    def stop(self) -> None:
        """Ask for the end and return at once: may be called twice, before `start`, and during a sleep."""
        ...

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; True when it has come (also when it never began)."""
        ...


class Loop:
    """A named daemon thread that calls ``tick`` again and again.

    1. `start` begins with a first tick at once.
    2. ``tick`` answers the seconds until the next one, or None to end the loop.
    3. `wake` ends such a sleep early; a wake during a tick is kept for the sleep after it.
    4. An Exception in a tick goes to ``on_error`` and the loop goes on after a second; anything harder is reported
       and ends the thread.
    5. `stop` ends the sleep and the loop; `join` waits for that.

    Args:
        name: of the thread, and in reports.
        tick: the work.
        on_error: gets the error and ``{"service": name}``.
    """

    def __init__(self, name: str, tick: Callable[[], float | None], *, on_error: OnError) -> None:
        self.name = name
        self._tick = tick
        self._on_error = on_error
        self._stopping = threading.Event()
        self._wakeup = threading.Event()
        self._ticked = threading.Condition()
        self._ticks = 0
        self._thread: threading.Thread | None = None

    @property
    def ticks(self) -> int:
        """How many ticks have ended, failed ones included."""
        return self._ticks

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        with self._ticked:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wakeup.set()

    def wake(self) -> None:
        """Have the next tick now."""
        self._wakeup.set()

    def join(self, timeout_seconds: float | None = None) -> bool:
        thread = self._thread
        if thread is None:
            return True
        if thread is threading.current_thread():
            return False
        thread.join(timeout_seconds)
        return not thread.is_alive()

    def wait_for_tick(self, number: int, timeout_seconds: float) -> bool:
        """Wait until ``number`` ticks have ended, counted from the start; False when they have not in time."""
        with self._ticked:
            return self._ticked.wait_for(lambda: self._ticks >= number, timeout_seconds)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                pause_seconds = self._tick_safely()
                if pause_seconds is None:
                    return
                self._wakeup.wait(max(0.0, pause_seconds))
                self._wakeup.clear()
        except BaseException as error:  # noqa: BLE001  # the last words of a thread that nobody joins
            self._report(error)

    def _tick_safely(self) -> float | None:
        try:
            return self._tick()
        except Exception as error:  # noqa: BLE001  # one bad tick must not end a service for good
            self._report(error)
            return PAUSE_AFTER_ERROR_SECONDS
        finally:
            with self._ticked:
                self._ticks += 1
                self._ticked.notify_all()

    def _report(self, error: BaseException) -> None:
        self._on_error(error, {"service": self.name})
