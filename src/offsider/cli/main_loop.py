"""The main thread of a running worker: it waits for signals and handles them.

1. Send READY to systemd when the launcher has started.
2. Handle signals one by one, including those sent through Redis: TSTP quiets, TERM, INT and HUP stop, QUIT and a second
   INT stop at once, TTIN dumps stacks, USR2 from a supervisor drains (exit once no job runs), and ends a stop at once.
3. Run a stop in a separate thread, so that a dump still works while the stop waits for jobs.
4. In between: update the process title every second, notify systemd's watchdog, and, without a supervisor, check the
   memory.
5. If the stop hangs, for example in an event handler of the application, exit at the promised deadline.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from offsider.cli import systemd
from offsider.cli.title import title, title_setter
from offsider.core.error_text import describe
from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode
from offsider.logs.setup import base36, logger
from offsider.worker.launcher import start_thread
from offsider.worker.memory_limits import LOOK_SECONDS, MemoryWatch
from offsider.worker.resident_memory import resident_kilobytes

if TYPE_CHECKING:
    from offsider.cli.signals import SignalQueue
    from offsider.worker.health_state import HealthState
    from offsider.worker.launcher import Launcher
    from offsider.worker.totals import Totals

TITLE_SECONDS = 1.0
# From the deadline of running jobs to the exit of the process.
LAST_SECONDS = 3.6
MIN_SECONDS = 0.1
# Exit code after too much memory use: EX_TEMPFAIL of sysexits.h, on which process managers restart the process.
TOO_LARGE = 75
# Checks of an idle worker before it exits: a job may be between the fetcher and a thread.
IDLE_CHECKS = 2


class MainLoop:
    """Runs a started launcher until it has stopped.

    Args:
        launcher: a started launcher.
        signals: an installed signal queue.
        supervised: whether a supervisor forked the process; it checks the memory and may send USR2.
    """

    def __init__(self, launcher: Launcher, signals: SignalQueue, *, supervised: bool = False) -> None:
        self._launcher = launcher
        self._signals = signals
        self._set_title = title_setter()
        self._watchdog = systemd.SystemdWatchdog()
        self._stop_requested = threading.Event()
        self._stopped = False
        self._deadline = 0.0
        self._code = 0
        self._supervised = supervised
        self._idle_checks = 0
        self._draining = False
        self._interrupts = 0
        max_mb = launcher.config.worker.memory_max_mb
        self._memory = MemoryWatch(max_mb) if max_mb and not supervised else None
        self._memory_due = 0.0
        self._actions: dict[str, Callable[[], None]] = {
            "TERM": self._stop,
            "INT": self._interrupt,
            "HUP": self._stop,  # a closed terminal, or a rule for log files: no crash, and no strike for the jobs
            "QUIT": self._stop_at_once,
            "TSTP": self._quiet,
            "TTIN": self._dump,
            "USR2": self._end_when_idle,
        }

    def until_stopped(self) -> int:
        """Block until a stop has finished or timed out, and return the exit code."""
        # Before any job runs out of threads: a stop must not need a new one.
        threading.Thread(target=self._stop_launcher, name="offsider-stop", daemon=True).start()
        systemd.notify("READY=1")
        while not self._stopped:
            if self._stop_requested.is_set() and self._deadline <= time.monotonic():
                logger.error("shutdown timed out: other workers will requeue the remaining jobs of this worker")
                self._dump()
                return 1
            self._set_title(title(self._launcher))
            self._watchdog.feed()
            self._check_memory()
            self._check_idle()
            for name in self._signals.wait(self._pause_seconds()):
                self.act_on(name)
            for name, error in self._signals.failures():
                logger.error("an earlier handler of %s failed: %s", name, describe(error), exc_info=error)
        return 1 if self._launcher.lifecycle.broken else self._code

    def health(self) -> HealthState:
        """Return the health of the worker, for a health endpoint that it serves itself."""
        return self._launcher.health()

    @property
    def totals(self) -> Totals:
        """The counters of the worker, for the same endpoint."""
        return self._launcher.totals

    def seconds_left(self) -> float:
        """Return the seconds left for the exit, so that the whole stop takes at most the timeout plus 4 s."""
        return max(MIN_SECONDS, self._deadline - time.monotonic())

    def act_on(self, name: str) -> None:
        """Handle a signal; log an unknown one."""
        action = self._actions.get(name)
        if action is None:
            logger.warning("ignoring the signal %s: a worker does not handle it", name)
            return
        logger.debug("got %s", name)
        action()

    def _pause_seconds(self) -> float:
        due = [TITLE_SECONDS, self._watchdog.due_at - time.monotonic()]
        if self._stop_requested.is_set():
            due.append(self._deadline - time.monotonic())
        return max(0.0, min(due))

    def _stop(self) -> None:
        if not self._stop_requested.is_set():
            systemd.notify("STOPPING=1")
            timeout_seconds = self._launcher.config.worker.timeout_seconds
            self._deadline = time.monotonic() + timeout_seconds + LAST_SECONDS
            logger.info("stopping: running jobs have %g s", timeout_seconds)
            self._log_running_jobs()
            self._stop_requested.set()

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self._stop()
            logger.info("press Ctrl-C again to stop at once: running jobs are requeued")
        else:
            # Only INT: a terminal sends it to the workers of a supervisor too, which sends them TERM.
            self._hurry()

    def _stop_at_once(self) -> None:
        self._stop()
        self._hurry()

    def _hurry(self) -> None:
        logger.info("stopping at once: running jobs are requeued")
        self._deadline = min(self._deadline, time.monotonic() + LAST_SECONDS)
        self._launcher.hurry()

    def _stop_launcher(self) -> None:
        self._stop_requested.wait()
        try:
            self._launcher.stop()
        finally:
            # Before the wake: this thread is still alive when the main loop checks.
            self._stopped = True
            self._signals.wake()

    def _quiet(self) -> None:
        # In a thread, because handlers of the event `quiet` may be slow and must not delay other signals.
        start_thread(self._launcher.quiet, "offsider-quiet")

    def _end_when_idle(self) -> None:
        if not self._supervised:
            logger.warning("ignoring USR2: a rolling restart needs a supervisor (--processes)")
            return
        if self._stop_requested.is_set():
            self._hurry()
            return
        self._draining = True
        self._log_running_jobs()
        self._quiet()

    def _check_idle(self) -> None:
        if not self._draining or not self._launcher.lifecycle.quieted or self._stop_requested.is_set():
            return
        self._idle_checks = 0 if self._launcher.work_state.running() else self._idle_checks + 1
        if self._idle_checks > IDLE_CHECKS:
            self._stop()

    def _check_memory(self) -> None:
        now = time.monotonic()
        if self._memory is None or self._stop_requested.is_set() or now < self._memory_due:
            return
        self._memory_due = now + LOOK_SECONDS
        reason = self._memory.too_much(resident_kilobytes(), now)
        if reason:
            logger.warning("stopping this process: %s", reason)
            self._code = TOO_LARGE
            self._stop()

    def _log_running_jobs(self) -> None:
        jobs = [_named(work.unit.raw) for work in self._launcher.work_state.running().values()]
        if jobs:
            logger.info("running now: %s", ", ".join(jobs))

    def _dump(self) -> None:
        dump(self._launcher.parts.async_tasks())


def _named(raw: bytes) -> str:
    try:
        payload = decode(raw)
    except MalformedPayload:
        return "malformed payload"
    return f"{payload.get('class')} jid={payload.get('jid')}"


def dump(tasks: Iterable[asyncio.Task[Any]] = ()) -> None:
    """Write all stacks to the log."""
    for text in (*thread_stacks(), *task_stacks(tasks)):
        logger.warning(text)  # without arguments: their line breaks would be escaped


def thread_stacks() -> Iterator[str]:
    """Yield one text per thread: its ID as in log lines, its name, its stack."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the documented way to see other threads
        thread = known.get(ident)
        number = base36(thread.native_id or 0) if thread else "?"
        name = thread.name if thread else "unknown to threading"
        yield f"thread tid={number} {name}\n{''.join(traceback.format_stack(frame)).rstrip()}"


def task_stacks(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[str]:
    """Yield one text per asyncio task: its name and its stack."""
    for task in tasks:
        try:
            frames = task.get_stack()
            lines = [line for frame in frames for line in traceback.format_stack(frame, limit=1)]
            yield f"asyncio task {task.get_name()}\n{''.join(lines).rstrip()}"
        except Exception as error:  # noqa: BLE001  # the task runs in another thread and may change during the read
            yield f"asyncio task {task.get_name()}: its stack cannot be shown: {describe(error)}"
