"""The main thread while the worker runs: it waits for signals and acts on them.

1. READY is told to systemd once the launcher has started.
2. TSTP quiets, TERM and INT stop, TTIN dumps; each, also those that came through Redis, is taken in turn.
3. A stop runs in a thread of its own, so that a dump still works while jobs are waited for.
4. In between: the process title each second, systemd's watchdog when it is due.
5. A stop that hangs, in a handler of the application for example, is not waited for beyond what was promised.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.cli import systemd
from offsider.cli.dump import dump
from offsider.cli.title import title_setter
from offsider.wiring.logs import describe, logger

if TYPE_CHECKING:
    from offsider.cli.signals import SignalQueue
    from offsider.worker.health_state import HealthState
    from offsider.worker.launcher import Launcher

TITLE_SECONDS = 1.0
# From the deadline of running jobs to the last instruction.
LAST_SECONDS = 3.6
LEAST_SECONDS = 0.1


class Running:
    """Runs a started launcher until it has stopped.

    Args:
        launcher: started.
        signals: installed.
    """

    def __init__(self, launcher: Launcher, signals: SignalQueue) -> None:
        self._launcher = launcher
        self._signals = signals
        self._set_title = title_setter()
        self._watchdog_seconds = systemd.watchdog_seconds()
        self._watchdog_due = 0.0
        self._stopper: threading.Thread | None = None
        self._deadline = 0.0
        self._actions: dict[str, Callable[[], None]] = {
            "TERM": self._stop,
            "INT": self._stop,
            "TSTP": self._quiet,
            "TTIN": self._dump,
        }

    def until_stopped(self) -> int:
        """Returns when a stop is done, or is too late; answers the exit code."""
        systemd.notify("READY=1")
        while self._stopper is None or self._stopper.is_alive():
            if self._stopper is not None and self._deadline <= time.monotonic():
                logger.error("the stop hangs: what is not given back yet, other workers will find")
                self._dump()
                return 1
            self._set_title(self._launcher.title())
            self._feed_watchdog()
            for name in self._signals.wait(self._pause_seconds()):
                self.act_on(name)
            for name, error in self._signals.failures():
                logger.error("an earlier handler of %s failed: %s", name, describe(error), exc_info=error)
        return 1 if self._launcher.broken else 0

    def health(self) -> HealthState:
        """How the worker fares, for a health endpoint that it serves itself."""
        return self._launcher.health()

    def seconds_left(self) -> float:
        """How long the end of the process may still take for a stop to keep its promise of timeout and 4 s."""
        return max(LEAST_SECONDS, self._deadline - time.monotonic())

    def act_on(self, name: str) -> None:
        """Do what a signal asks for; one that means nothing is logged."""
        action = self._actions.get(name)
        if action is None:
            logger.warning("the signal %s means nothing here", name)
            return
        logger.debug("got %s", name)
        action()

    def _pause_seconds(self) -> float:
        due = [TITLE_SECONDS]
        if self._watchdog_seconds is not None:
            due.append(self._watchdog_due - time.monotonic())
        if self._stopper is not None:
            due.append(self._deadline - time.monotonic())
        return max(0.0, min(due))

    def _feed_watchdog(self) -> None:
        if self._watchdog_seconds is not None and time.monotonic() >= self._watchdog_due:
            systemd.notify("WATCHDOG=1")
            self._watchdog_due = time.monotonic() + self._watchdog_seconds

    def _stop(self) -> None:
        if self._stopper is None:
            systemd.notify("STOPPING=1")
            timeout_seconds = self._launcher.config.worker.timeout_seconds
            self._deadline = time.monotonic() + timeout_seconds + LAST_SECONDS
            logger.info("stopping: running jobs have %g s", timeout_seconds)
            self._stopper = threading.Thread(target=self._stop_launcher, name="offsider-stop")
            self._stopper.start()

    def _stop_launcher(self) -> None:
        try:
            self._launcher.stop()
        finally:
            self._signals.wake()

    def _quiet(self) -> None:
        # Handlers of the event `quiet` may take their time; signals go on being heard meanwhile.
        threading.Thread(target=self._launcher.quiet, name="offsider-quiet", daemon=True).start()

    def _dump(self) -> None:
        dump(self._launcher.async_tasks())
