"""The main thread of a running worker: it waits for signals and handles them.

1. Handle signals one by one, including those sent through Redis: TSTP quiets, TERM, INT and HUP stop, QUIT and a second
   INT stop at once, TTIN dumps stacks, USR2 drains (exit once no job runs).
2. Stop when the parent has died.
3. Run a stop in a separate thread, so that a dump still works while the stop waits for jobs.
4. In between, update the process title every second.
5. If the stop hangs, for example in an event handler of the application, exit at the promised deadline.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from offsider.cli.status import title, title_setter
from offsider.core.error_text import describe
from offsider.core.payload import decode_or_none
from offsider.logs.setup import base36, logger
from offsider.worker.launcher import start_thread
from offsider.worker.run.coroutine_run import CoroutineRun

if TYPE_CHECKING:
    from offsider.cli.signals import SignalQueue
    from offsider.runtime.context import Reach
    from offsider.worker.alive.parent_link import ParentLink
    from offsider.worker.launcher import Launcher

TITLE_SECONDS = 1.0
# From the deadline of running jobs to the exit of the process.
LAST_SECONDS = 3.6
MIN_SECONDS = 0.1
# Checks of an idle worker before it exits: a job may be between the fetcher and a thread.
IDLE_CHECKS = 2


class MainLoop:
    """Runs a started launcher until it has stopped.

    Args:
        launcher: a started launcher.
        signals: an installed signal queue.
        parent: the link to the parent of this process.
    """

    def __init__(self, launcher: Launcher, signals: SignalQueue, parent: ParentLink) -> None:
        self._launcher = launcher
        self._signals = signals
        self._set_title = title_setter()
        self._parent = parent
        self._stop_requested = threading.Event()
        self._stopped = False
        self._deadline = 0.0
        self._idle_checks = 0
        self._draining = False
        self._interrupts = 0
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
        while not self._stopped:
            if self._stop_requested.is_set() and self._deadline <= time.monotonic():
                logger.error("shutdown timed out: other workers will requeue the remaining jobs of this worker")
                self._dump()
                return 1
            self._set_title(title(self._launcher))
            self._check_idle()
            # The parent sends nothing: its end of the link is readable once it has died.
            parent = () if self._stop_requested.is_set() else (self._parent.fileno(),)
            for name in self._signals.wait(self._pause_seconds(), parent):
                self.act_on(name)
            for name, error in self._signals.failures():
                logger.error("an earlier handler of %s failed: %s", name, describe(error), exc_info=error)
            if parent and self._parent.closed():
                logger.warning("the parent of this worker has died: stopping")
                self._stop()
        return 1 if self._launcher.lifecycle.broken else 0

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
        due = [TITLE_SECONDS]
        if self._stop_requested.is_set():
            due.append(self._deadline - time.monotonic())
        return max(0.0, min(due))

    def _stop(self) -> None:
        if not self._stop_requested.is_set():
            timeout_seconds = self._launcher.config.worker.timeout_seconds
            self._deadline = time.monotonic() + timeout_seconds + LAST_SECONDS
            logger.info("stopping: running jobs have %g s", timeout_seconds)
            self._log_running_jobs()
            self._stop_requested.set()

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self._stop()
        else:
            # Only INT: a terminal sends it to the workers too, and the parent sends them TERM.
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
        if self._stop_requested.is_set():
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

    def _log_running_jobs(self) -> None:
        jobs = [_named(work.unit.raw) for work in self._launcher.work_state.running().values()]
        if jobs:
            logger.info("running now: %s", ", ".join(jobs))

    def _dump(self) -> None:
        dump(self._launcher.parts.outside_of_threads())


def _named(raw: bytes) -> str:
    payload = decode_or_none(raw)
    return "malformed payload" if payload is None else f"{payload['class']} jid={payload.get('jid')}"


def dump(jobs: Iterable[tuple[str, bytes, Reach]] = ()) -> None:
    """Write all stacks to the log."""
    for text in (*thread_stacks(), *job_stacks(jobs)):
        logger.warning(text)  # without arguments: their line breaks would be escaped


def thread_stacks() -> Iterator[str]:
    """Yield one text per thread: its ID as in log lines, its name, its stack."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the documented way to see other threads
        thread = known.get(ident)
        number = base36(thread.native_id or 0) if thread else "?"
        name = thread.name if thread else "unknown to threading"
        yield f"thread tid={number} {name}\n{''.join(traceback.format_stack(frame)).rstrip()}"


def job_stacks(jobs: Iterable[tuple[str, bytes, Reach]]) -> Iterator[str]:
    """Yield one text per async or isolated job: its ID as in the busy table, its name, its stack."""
    for tid, raw, reach in jobs:
        kind = "asyncio task" if isinstance(reach, CoroutineRun) else "isolated job"
        title = f"{kind} tid={tid} {_named(raw)}"
        try:
            lines = [line for frame in reach.frames() for line in traceback.format_stack(frame, limit=1)]
            yield f"{title}\n{''.join(lines).rstrip()}"
        except Exception as error:  # noqa: BLE001  # the task runs in another thread and may change during the read
            yield f"{title}: its stack cannot be shown: {describe(error)}"
