"""The supervisor: one thread, no connection, and, without ``preload``, no application code.

1. Fork the keeper first, before anything else is loaded.
2. With ``preload``: load the application, and refuse to fork if it has started threads.
3. Fork the workers. They report over their parent links when they run.
4. Sleep until a signal or a message of a worker arrives, or an action is due: restart, replace, kill.
5. TERM, INT and HUP stop all workers, QUIT and a second INT at once, TSTP quiets them, TTIN makes them dump stacks.
   USR2 replaces them all by workers with new code: this process executes itself again and keeps its ID.
6. When the last worker has exited, the keeper requeues the jobs of killed workers, and the supervisor exits.

The supervisor reaps every child, including orphans of jobs if it is PID 1. If only the keeper exits, only the keeper
is restarted.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.cli import systemd
from offsider.cli.boot import load, start_embedded_server
from offsider.cli.signals import NAMES, STOPS, SignalQueue, StoppedEarly
from offsider.cli.supervisor.children import Children
from offsider.cli.supervisor.fork import Forker, WorkAs
from offsider.cli.supervisor.keeper_child import KeeperChild
from offsider.cli.supervisor.reexec import Restart, inherited
from offsider.cli.title import title_setter
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.core.wording import counted
from offsider.logs.setup import logger
from offsider.worker.memory_limits import LOOK_SECONDS
from offsider.worker.resident_memory import resident_kilobytes

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config

LONGEST_PAUSE_SECONDS = 60.0
# Time for the keeper to requeue the jobs of killed workers.
KEEPER_SECONDS = 2.0
# The same if the workers needed their whole timeout, although none was killed: the server may be away.
LEAST_KEEPER_SECONDS = 0.4
# From the deadline at which the last worker is killed to the promised exit.
LAST_SECONDS = 0.3


class Supervisor:
    """Runs the workers of a command line.

    Args:
        options: the command line.
        config: the configuration before the application is imported.
        work_as: runs a worker in a forked process.
    """

    def __init__(self, options: WorkerOptions, config: Config, work_as: WorkAs) -> None:
        self._options = options
        self._config = config
        size = config.worker.processes or 1
        self._keeper = keeper = KeeperChild(config, size, self._let_go)
        self._signals = SignalQueue((*NAMES, "CHLD"))
        self._forker = Forker(
            options, config, keeper.channel, self._signals, work_as=work_as, let_go=keeper.close_health
        )
        self._workers = Children(self._forker, size, lambda: self._config.worker.timeout_seconds)
        self._stop_by: float | None = None
        self._interrupts = 0
        self._quieted = False
        self._broken = False
        self._memory_due = 0.0
        self._restart = Restart()
        self._status = StatusReport()
        self._watchdog = systemd.SystemdWatchdog()

    def run(self) -> int:
        """Run until the last worker has exited, and return the exit code.

        Raises:
            ConfigurationError: the application cannot be preloaded; no worker was started.
        """
        for child in inherited(self._forker, os.environ):
            self._workers.adopt(child)
        self._keeper.start(succeeds_another=bool(self._workers.all()))
        with ExitStack() as resources:
            try:
                self._prepare(resources)
            except StoppedEarly:
                self._signals.booting = False
                self._stop()
            except OffsiderError as error:
                self._signals.booting = False
                if not self._workers.all():
                    raise
                self._broken = True
                self._workers.may_start = False
                logger.error("the new workers cannot start, the old workers continue: %s", error)
            self._supervise()
        return 1 if self._broken or self._workers.hopeless or self._workers.killed else 0

    def _prepare(self, resources: ExitStack) -> None:
        self._signals.booting = True
        self._signals.install()
        options = self._options
        if options.embedded:
            # This process alone starts it, before the workers, which find its URL in the environment.
            os.environ["OFFSIDER_REDIS_URL"] = start_embedded_server(resources)
            options = replace(options, embedded=False)
        preloaded = None
        if self._config.worker.preload:
            preloaded = self._config = load(options, resources)
            self._keeper.use(preloaded)
            refuse_threads()
            self._signals.install()
        self._forker.use(options, preloaded)
        # Workers share the memory pages that exist now until a write; freeze, so that the collector does not write.
        gc.collect()
        gc.freeze()
        self._signals.booting = False

    # ------------------------------------------------------------------------------------ the loop
    def _supervise(self) -> None:
        while True:
            self._reap()
            now = time.monotonic()
            self._workers.tend(now)
            if self._stop_by is None:
                self._keeper.tend(now)
            self._restart.cancel_overdue(now)
            self._check_memory(now)
            self._report()
            self._watchdog.feed()
            if self._workers.hopeless and self._stop_by is None:
                logger.error("no worker started, so the supervisor exits: see the errors above")
                self._stop()
            if self._stop_by is not None and not self._workers.all():
                self._part_with_keeper()
                return
            if not self._workers.may_start and not self._workers.all() and not self._quieted:
                return
            links = [child.parent_link.fileno() for child in self._workers.all() if not child.ready]
            for name in self._signals.wait(self._pause_seconds(), links):
                self._act_on(name)
            for name, error in self._signals.failures():
                logger.error("an earlier handler of %s failed", name, exc_info=error)

    def _pause_seconds(self) -> float:
        return max(0.0, min(self._due()) - time.monotonic())

    def _due(self) -> Iterator[float]:
        yield time.monotonic() + LONGEST_PAUSE_SECONDS
        yield from self._workers.due()
        if (start_at := self._keeper.due()) is not None:
            yield start_at
        if self._config.worker.memory_max_mb:
            yield self._memory_due
        yield self._restart.due_at
        yield self._watchdog.due_at

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._keeper.pid:
                self._keeper.exited(status, restart=self._stop_by is None)
            elif pid == self._restart.pid:
                self._end_check(status)
            else:
                self._workers.reaped(pid, status)

    def _check_memory(self, now: float) -> None:
        if now < self._memory_due or self._stop_by is not None or not self._workers.may_start:
            return
        self._memory_due = now + LOOK_SECONDS
        for slot in self._workers.slots:
            child = slot.child
            if child is not None and child.ready:
                reason = child.memory.too_much(resident_kilobytes(child.pid), now)
                if reason:
                    self._workers.replace(child, reason)

    def _report(self) -> None:
        tag, workers = self._config.worker.tag, self._workers
        self._status.write(tag, workers.ready, len(workers.slots), stopping=self._stop_by is not None)

    # ------------------------------------------------------------------------------------- signals
    def _act_on(self, name: str) -> None:
        if name in STOPS:
            self._stop()
            self._interrupts += name == "INT"
            if self._interrupts > 1 or name == "QUIT":
                # A terminal sends INT to the workers too, `kill` does not. To a stopping worker USR2 means: at once.
                self._workers.send("USR2")
        elif name == "TSTP":
            self._quiet()
        elif name == "TTIN":
            self._log_workers()
            self._workers.send("TTIN")
        elif name == "USR2":
            self._restart_all()

    def _stop(self) -> None:
        if self._stop_by is None:
            systemd.notify("STOPPING=1")
            self._restart.cancel()
            logger.info("stopping %s", counted(len(self._workers.all()), "worker"))
            self._stop_by = self._workers.stop()

    def _quiet(self) -> None:
        self._quieted = True
        self._workers.may_start = False
        logger.info("quiet: workers claim no new jobs, and no worker is started")
        self._workers.send("TSTP")

    def _restart_all(self) -> None:
        if self._stop_by is not None or self._quieted:
            logger.warning("ignoring USR2: the workers are quiet or stopping")
            return
        logger.info("restarting: checking the new code in %s", self._restart.folder)
        try:
            self._restart.check()
        except OSError as error:
            logger.error("restart failed, the workers continue: %s", error)

    def _end_check(self, status: int) -> None:
        failure = self._restart.failure(status)
        if failure:
            logger.error("restart failed, the workers continue: %s", failure)
            return
        if self._stop_by is not None or self._quieted:
            return
        logger.info("restarting: new workers take over one by one, old workers exit after their jobs")
        self._keeper.order(no_more=True)
        try:
            self._restart.exec(self._workers.all())
        except OSError as error:
            self._keeper.order()
            logger.error("restart failed, the workers continue: %s", error)

    def _log_workers(self) -> None:
        for child in self._workers.all():
            state = "is exiting" if child.pid in self._workers.leaving else "runs" if child.ready else "starts"
            age = time.monotonic() - child.born_at
            logger.info("worker %d: process %d %s, %.0f s old", child.slot + 1, child.pid, state, age)

    def _let_go(self) -> None:
        """In the keeper: close the parent links, which must close with the supervisor, and the signal queue."""
        self._signals.close()
        for child in self._workers.all():
            child.let_go()

    def _part_with_keeper(self) -> None:
        """Wait until the keeper has requeued the jobs of killed workers, but no longer than the stop may take."""
        self._keeper.order(no_more=True)
        now, killed_at = time.monotonic(), self._stop_by or 0.0
        soon = min(now + KEEPER_SECONDS, killed_at - KEEPER_SECONDS)
        give_up_at = min(max(now + LEAST_KEEPER_SECONDS, soon), killed_at + LAST_SECONDS)
        while self._keeper.pid and time.monotonic() < give_up_at:
            self._signals.wait(min(0.05, max(0.0, give_up_at - time.monotonic())))
            self._reap()


class StatusReport:
    """Shows the number of running workers in the process title, and reports once that all run."""

    def __init__(self) -> None:
        self._set_title = title_setter()
        self._title = ""
        self._reported_ready = False

    def write(self, tag: str, ready: int, wanted: int, *, stopping: bool) -> None:
        words = ["offsider", __version__, tag, f"supervisor [{ready} of {wanted} run]"]
        title = " ".join(word for word in (*words, "stopping" if stopping else "") if word)
        if title != self._title:
            self._set_title(title)
            self._title = title
        if ready == wanted and not self._reported_ready:
            self._reported_ready = True
            logger.info("now running: %s", counted(wanted, "worker"))
            systemd.notify("READY=1")


TASKS = Path("/proc/self/task")


def refuse_threads() -> None:
    """Raise when this process has more than one thread.

    Raises:
        ConfigurationError: there are other threads; the message names them.
    """
    others = other_threads()
    if others:
        raise ConfigurationError(
            f"--preload: the application started threads while it was loaded ({', '.join(others)}). A fork copies "
            'their locks but not the threads. Start them at the event "fork" or "startup", or remove --preload'
        )


def other_threads() -> list[str]:
    """Return the names of all other threads; threads that Python did not start have their system name."""
    here = threading.get_native_id()
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    if not TASKS.is_dir():
        return sorted(name for number, name in python.items() if number != here)
    return sorted(python.get(number) or _called(number) for number in map(int, os.listdir(TASKS)) if number != here)  # noqa: PTH208  # names alone


def _called(number: int) -> str:
    try:
        return f"{(TASKS / str(number) / 'comm').read_text().strip()} (not Python's)"
    except OSError:
        return f"thread {number}"
