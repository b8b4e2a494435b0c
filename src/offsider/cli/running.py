"""The main thread while the worker runs: it waits for signals and acts on them.

1. READY is told to systemd once the launcher has started.
2. TSTP quiets, TERM and INT stop, TTIN dumps, a supervisor's USR2 means to end once no job runs; each, also those that
   came through Redis, is taken in turn.
3. A stop runs in a thread of its own, so that a dump still works while jobs are waited for.
4. In between: the process title each second, systemd's watchdog when it is due, and, without a supervisor that does it,
   a look at the memory.
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
from offsider.worker.memory_limits import LOOK_SECONDS, MemoryLimits, MemoryWatch
from offsider.worker.resident_memory import resident_kilobytes

if TYPE_CHECKING:
    from offsider.cli.signals import SignalQueue
    from offsider.worker.health_state import HealthState
    from offsider.worker.launcher import Launcher
    from offsider.worker.run_sums import RunSums

TITLE_SECONDS = 1.0
# From the deadline of running jobs to the last instruction.
LAST_SECONDS = 3.6
LEAST_SECONDS = 0.1
# It held too much memory: "try again later" in sysexits.h, which process managers take for a reason to restart.
TOO_LARGE = 75
# Looks at an idle worker before it ends: a job may be on its way from the fetcher to a thread.
IDLE_LOOKS = 2


class Running:
    """Runs a started launcher until it has stopped.

    Args:
        launcher: started.
        signals: installed.
        supervised: the process was forked by a supervisor, which looks after its memory and may send USR2.
    """

    def __init__(self, launcher: Launcher, signals: SignalQueue, *, supervised: bool = False) -> None:
        self._launcher = launcher
        self._signals = signals
        self._set_title = title_setter()
        self._watchdog_seconds = systemd.watchdog_seconds()
        self._watchdog_due = 0.0
        self._stopper: threading.Thread | None = None
        self._deadline = 0.0
        self._code = 0
        self._supervised = supervised
        self._idle_looks = 0
        self._draining = False
        limits = MemoryLimits.of(launcher.config.worker)
        self._memory = MemoryWatch(limits, time.monotonic()) if limits.any and not supervised else None
        self._memory_due = 0.0
        self._actions: dict[str, Callable[[], None]] = {
            "TERM": self._stop,
            "INT": self._stop,
            "TSTP": self._quiet,
            "TTIN": self._dump,
            "USR2": self._end_when_idle,
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
            self._look_at_memory()
            self._look_whether_idle()
            for name in self._signals.wait(self._pause_seconds()):
                self.act_on(name)
            for name, error in self._signals.failures():
                logger.error("an earlier handler of %s failed: %s", name, describe(error), exc_info=error)
        return 1 if self._launcher.broken else self._code

    def health(self) -> HealthState:
        """How the worker fares, for a health endpoint that it serves itself."""
        return self._launcher.health()

    @property
    def sums(self) -> RunSums:
        """What the worker has counted, for the same."""
        return self._launcher.sums

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
            self._tell_running_jobs()
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

    def _end_when_idle(self) -> None:
        if not self._supervised:
            logger.warning("USR2 restarts the workers of a supervisor: it needs --processes")
            return
        self._draining = True
        self._tell_running_jobs()
        self._quiet()

    def _look_whether_idle(self) -> None:
        if not self._draining or not self._launcher.quieted or self._stopper is not None:
            return
        self._idle_looks = 0 if self._launcher.running_jobs() else self._idle_looks + 1
        if self._idle_looks > IDLE_LOOKS:
            self._stop()

    def _look_at_memory(self) -> None:
        now = time.monotonic()
        if self._memory is None or self._stopper is not None or now < self._memory_due:
            return
        self._memory_due = now + LOOK_SECONDS
        reason = self._memory.too_much(resident_kilobytes(), now)
        if reason:
            logger.warning("this process has to go: %s", reason)
            self._code = TOO_LARGE
            self._stop()

    def _tell_running_jobs(self) -> None:
        jobs = self._launcher.running_jobs()
        if jobs:
            logger.info("running now: %s", ", ".join(jobs))

    def _dump(self) -> None:
        dump(self._launcher.async_tasks())
