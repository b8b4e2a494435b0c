"""The parent of the workers: one thread, no code of the application.

1. Start the workers: one without ``-p``, else through the fork server. They report over their links.
2. Sleep until a signal or a message arrives, or an action is due: start, replace, kill, beat, requeue.
3. TERM, INT and HUP stop all workers, QUIT and a second INT at once, TSTP quiets them, TTIN makes them dump stacks.
   USR2 replaces them all by workers with new code: this process executes itself again and keeps its ID.
4. When a worker dies, requeue its jobs. With ``-p``, start another one; without, exit with its code.

The parent reaps every child, and every orphan of a job: it is the child subreaper of its workers, or PID 1.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.cli import systemd
from offsider.cli.health import HealthServer
from offsider.cli.options import EMBEDDED_FOLDER
from offsider.cli.parent.children import Children
from offsider.cli.parent.fork_server import ForkServer
from offsider.cli.parent.reexec import Restart, inherited
from offsider.cli.parent.starting import Starter
from offsider.cli.signals import NAMES, STOPS, SignalQueue
from offsider.cli.title import title_setter
from offsider.core.wording import counted
from offsider.logs.setup import logger
from offsider.worker.alive.parent_link import WorkerLink, report_of
from offsider.worker.alive.rescue import Rescuer, preload
from offsider.worker.memory_limits import LOOK_SECONDS
from offsider.worker.resident_memory import resident_kilobytes

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.cli.parent.starting import Child
    from offsider.config.config import Config

MAX_PAUSE_SECONDS = 60.0
# Time to requeue the jobs of killed workers before the exit.
RESCUE_SECONDS = 2.0
# The same if the workers needed their whole timeout, although none was killed: the server may be away.
MIN_RESCUE_SECONDS = 0.4
# From the deadline at which the last worker is killed to the promised exit.
LAST_SECONDS = 0.3
# Exit code after too much memory use: EX_TEMPFAIL of sysexits.h, on which process managers restart the process.
TOO_LARGE = 75
# Added to the number of a signal, as in a shell, for the exit code of a parent whose only worker was killed.
KILLED = 128
PR_SET_CHILD_SUBREAPER = 36


class Parent:
    """Runs the workers of a command line.

    Args:
        options: the command line.
        config: the configuration before the application is imported.
    """

    def __init__(self, options: WorkerOptions, config: Config) -> None:
        self._options = options
        self._config = config
        worker = config.worker
        size = worker.processes or 1
        self._restarts = bool(worker.processes)
        self._signals = SignalQueue((*NAMES, "CHLD"), on_other=self._forward)
        self._rescuer = Rescuer(config)
        self._rescuer.health.expected = size
        self._health: HealthServer | None = None
        self._server = ForkServer(self._exited) if size > 1 else None
        self._starter = Starter(options, config, self._server, self._release)
        self._workers = Children(self._starter, size, lambda: worker.timeout_seconds, restarts=self._restarts)
        self._stop_by: float | None = None
        self._interrupts = 0
        self._quieted = False
        self._broken = False
        self._code = 0
        self._memory_due = 0.0
        self._restart = Restart()
        self._status = StatusReport(show=self._restarts)
        self._watchdog = systemd.SystemdWatchdog()

    def run(self) -> int:
        """Run until the last worker has exited, and return the exit code.

        Raises:
            ConfigurationError: the address of the health endpoint is in use.
        """
        become_subreaper()
        if self._config.worker.health:
            self._health = HealthServer(self._config.worker.health, self._rescuer, shard=self._config.worker.shard)
        self._signals.install()
        for left in inherited(os.environ):
            self._adopt(left)
        with ExitStack() as resources:
            if self._options.embedded:
                start_embedded_server(resources)
            preload()
            # Workers share the memory pages that exist now until a write; freeze, so that the collector does not write.
            gc.collect()
            gc.freeze()
            self._supervise()
        return self._exit_code()

    def _exit_code(self) -> int:
        if self._code:
            return self._code
        if self._broken or self._workers.hopeless or self._workers.killed:
            return 1
        code = os.waitstatus_to_exitcode(self._workers.status or 0)
        return KILLED - code if code < 0 else code

    def _adopt(self, left: dict[str, object]) -> None:
        """Continue with a worker of the previous program in this process."""
        stop_seconds, report = left["stop_seconds"], str(left["report"])
        link = WorkerLink.inherit(int(str(left["link"])), None if stop_seconds is None else float(str(stop_seconds)))
        child = self._starter.adopt(int(str(left["slot"])), int(str(left["pid"])), link, float(str(left["born_at"])))
        if report:
            link.report = report
            self._rescuer.heard(child.pid, report_of(json.loads(report)))
        self._workers.adopt(child)

    def _release(self) -> None:
        """In a forked process: close everything that only the parent uses."""
        self._signals.close()
        for child in self._workers.all():
            child.link.close()
        for each in (self._server, self._health):
            if each is not None:
                each.close()

    # ------------------------------------------------------------------------------------ the loop
    def _supervise(self) -> None:
        while True:
            self._listen()
            self._reap()
            now = time.monotonic()
            if self._stop_by is None and self._workers.may_start:
                self._starter.tend(now)
            self._workers.tend(now)
            self._rescuer.tend(now)
            self._restart.cancel_overdue(now)
            self._check_memory(now)
            self._status.write(self._config, self._workers, stopping=self._stop_by is not None)
            if self._status.ready:
                self._watchdog.feed()
            self._check_server()
            if self._workers.hopeless and self._stop_by is None:
                logger.error("no worker started, so the parent exits: see the errors above")
                self._stop()
            ends = self._stop_by is not None or not (self._workers.may_start or self._quieted)
            if ends and not self._workers.all():
                self._finish()
                return
            self._wait(self._pause_seconds())

    def _wait(self, seconds: float) -> None:
        reading = [child.link.fileno() for child in self._workers.all() if not child.link.closed]
        if self._server is not None and self._server.fileno() >= 0:
            reading.append(self._server.fileno())
        writing: list[int] = []
        if self._health is not None:
            reading += self._health.reading()
            writing += self._health.writing()
        for name in self._signals.wait(seconds, reading, writing):
            self._act_on(name)
        for name, error in self._signals.failures():
            logger.error("an earlier handler of %s failed", name, exc_info=error)

    def _pause_seconds(self) -> float:
        return max(0.0, min(self._due()) - time.monotonic())

    def _due(self) -> Iterator[float]:
        yield time.monotonic() + MAX_PAUSE_SECONDS
        yield from self._workers.due()
        yield self._rescuer.due()
        if self._server is not None and self._stop_by is None and self._starter.server is not None:
            yield self._server.start_at
        if self._config.worker.memory_max_mb:
            yield self._memory_due
        if self._health is not None:
            yield self._health.due()
        yield self._restart.due_at
        if self._status.ready:
            yield self._watchdog.due_at

    def _listen(self) -> None:
        for child in self._workers.all():
            self._hear(child)
        if self._server is not None:
            self._server.listen()
        if self._health is not None:
            self._health.tend()

    def _hear(self, child: Child) -> None:
        for message in child.link.receive():
            self._rescuer.heard(child.pid, message)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._server is not None and pid == self._server.pid:
                self._server.ended(status, restart=self._stop_by is None)
            elif pid == self._restart.pid:
                self._end_check(status)
            else:
                self._exited(pid, status)

    def _exited(self, pid: int, status: int) -> None:
        """Handle the end of a worker; before the fork server reaps it, or after this process has."""
        for child in self._workers.all():
            if child.pid == pid:
                self._hear(child)
        if self._workers.reaped(pid, status):
            self._rescuer.died(pid)

    def _check_server(self) -> None:
        """Stop, or continue with the old workers, if the application cannot be loaded."""
        if self._server is None or not self._server.failed or not self._workers.may_start:
            return
        self._workers.may_start = False
        self._broken = True
        if self._workers.all():
            logger.error("the new workers cannot start, the old workers continue: see the errors above")

    def _check_memory(self, now: float) -> None:
        if now < self._memory_due or self._stop_by is not None or not self._workers.may_start:
            return
        self._memory_due = now + LOOK_SECONDS
        for slot in self._workers.slots:
            child = slot.child
            if child is None or not child.ready:
                continue
            reason = child.memory.too_much(resident_kilobytes(child.pid), now)
            if reason and self._restarts:
                self._workers.replace(child, reason)
            elif reason:
                logger.warning("stopping this process: %s", reason)
                self._code = TOO_LARGE
                self._stop()

    # ------------------------------------------------------------------------------------- signals
    def _act_on(self, name: str) -> None:
        if name in STOPS:
            self._stop()
            self._interrupts += name == "INT"
            if self._interrupts > 1 or name == "QUIT":
                # A terminal sends INT to the workers too, `kill` does not. To a stopping worker USR2 means: at once.
                self._workers.send("USR2")
            elif name == "INT":
                logger.info("press Ctrl-C again to stop at once: running jobs are requeued")
        elif name == "TSTP":
            self._quiet()
        elif name == "TTIN":
            if self._restarts:
                self._log_workers()
            self._workers.send("TTIN")
        elif name == "USR2":
            self._restart_all()

    def _forward(self, number: int) -> None:
        """Pass on a signal that only the application may know."""
        for child in self._workers.all():
            os.kill(child.pid, number)

    def _stop(self) -> None:
        if self._stop_by is None:
            systemd.notify("STOPPING=1")
            self._restart.cancel()
            if self._restarts:
                logger.info("stopping %s", counted(len(self._workers.all()), "worker"))
            self._stop_by = self._workers.stop()
            # A server that does not answer must not delay the exit by a whole step.
            self._rescuer.step_seconds = MIN_RESCUE_SECONDS
            if self._server is not None and not self._server.loaded:
                self._server.stop()

    def _quiet(self) -> None:
        self._quieted = True
        self._workers.may_start = False
        if self._restarts:
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
        self._rescue_until(time.monotonic() + RESCUE_SECONDS)
        if self._server is not None:
            self._server.stop()
        try:
            self._restart.exec(self._workers.all())
        except OSError as error:
            logger.error("restart failed, the workers continue: %s", error)

    def _log_workers(self) -> None:
        for child in self._workers.all():
            state = "is exiting" if child.pid in self._workers.leaving else "runs" if child.ready else "starts"
            age = time.monotonic() - child.born_at
            logger.info("worker %d: process %d %s, %.0f s old", child.slot + 1, child.pid, state, age)

    def _finish(self) -> None:
        """End the fork server, and requeue the jobs of killed workers, but no longer than the stop may take."""
        if self._server is not None:
            self._server.stop()
        now = time.monotonic()
        killed_at = now if self._stop_by is None else self._stop_by
        give_up_at = max(now + MIN_RESCUE_SECONDS, min(now + RESCUE_SECONDS, killed_at - RESCUE_SECONDS))
        self._rescue_until(now + RESCUE_SECONDS if self._stop_by is None else min(give_up_at, killed_at + LAST_SECONDS))

    def _rescue_until(self, give_up_at: float) -> None:
        while self._rescuer.busy and time.monotonic() < give_up_at:
            self._rescuer.hurry()
            self._rescuer.tend(time.monotonic())
            if self._rescuer.busy:
                time.sleep(0.02)


def start_embedded_server(resources: ExitStack) -> None:
    """Start or join the server of the folder ``.offsider``; the workers find its URL in the environment."""
    from offsider.embedded import EmbeddedServer  # for development; other parents would keep it in memory

    if os.environ.get("REDIS_URL"):
        logger.warning(
            "--embedded starts its own server and ignores REDIS_URL: this worker does not see jobs that other "
            "processes push to REDIS_URL"
        )
    server = resources.enter_context(EmbeddedServer(EMBEDDED_FOLDER))
    logger.info("embedded server: %s", server.url)
    os.environ["OFFSIDER_REDIS_URL"] = server.url


class StatusReport:
    """Shows the number of running workers in the process title, and reports once that all run.

    Args:
        show: whether the log has that line.

    Attributes:
        ready: whether all workers have run at once.
    """

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._set_title = title_setter()
        self._title = ""
        self.ready = False

    def write(self, config: Config, workers: Children, *, stopping: bool) -> None:
        """Update the title; log and notify systemd when all workers run for the first time."""
        ready, wanted = workers.ready, len(workers.slots)
        words = ["offsider", __version__, config.worker.tag, f"parent [{ready} of {wanted} run]"]
        title = " ".join(word for word in (*words, "stopping" if stopping else "") if word)
        if title != self._title:
            self._set_title(title)
            self._title = title
        if ready == wanted and not self.ready:
            self.ready = True
            if self._show:
                logger.info("now running: %s", counted(wanted, "worker"))
            systemd.notify("READY=1")


def become_subreaper() -> None:
    """Adopt the workers of a fork server that dies, and the orphans of jobs. Linux only."""
    if sys.platform.startswith("linux"):
        import ctypes

        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
