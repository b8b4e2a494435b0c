"""The parent of the workers: one thread, no code of the application.

1. Start the workers: one without ``-p``, else through the fork server. They report over their links.
2. Sleep until a signal or a message arrives, or an action is due: start, replace, kill, beat, requeue.
3. TERM, INT and HUP stop all workers, QUIT and a second INT at once, TSTP quiets them, TTIN makes them dump stacks.
   USR2 replaces them all by workers with new code: this process executes itself again and keeps its ID.
4. When a worker dies, requeue its jobs. With ``-p``, start another one; without, exit with its code.
5. With ``--reload``, replace all workers when a source file has changed; restart as after USR2 when a configuration
   file has, because this process has read it too.

The parent reaps every child, and every orphan of a job: it is the child subreaper of its workers, or PID 1.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from offsider.cli.health import HealthServer
from offsider.cli.options import EMBEDDED_FOLDER
from offsider.cli.parent.children import Children
from offsider.cli.parent.fork_server import ForkServer
from offsider.cli.parent.reexec import Inherited, Restart, inherited
from offsider.cli.parent.starting import Child, Starter
from offsider.cli.reload import SourceWatch
from offsider.cli.signals import NAMES, STOPS, SignalQueue
from offsider.cli.status import ParentStatus, notify
from offsider.core.wording import counted, described
from offsider.logs.setup import logger
from offsider.worker.alive.parent_link import WorkerLink
from offsider.worker.alive.rescue import Rescuer, preload

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
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
        self._settings = worker = config.worker
        size = worker.processes or 1
        self._restarts = bool(worker.processes)
        self._signals = SignalQueue((*NAMES, "CHLD"), on_other=self._forward)
        self._rescuer = Rescuer(config)
        self._rescuer.health.expected = size
        self._health: HealthServer | None = None
        self._sources = SourceWatch(options) if worker.reload else None
        self._server = ForkServer(self._exited)
        self._starter = Starter(options, self._server if size > 1 and not worker.reload else None, self._release)
        self._workers = Children(self._starter, worker)
        self._stop_by: float | None = None
        self._interrupts = 0
        self._quieted = False
        self._broken = False
        self._code = 0
        self._restart = Restart()
        self._status = ParentStatus(worker.tag, show=self._restarts)

    def run(self) -> int:
        """Run until the last worker has exited, and return the exit code.

        Raises:
            ConfigurationError: the address of the health endpoint is in use.
        """
        become_subreaper()
        if self._settings.health:
            self._health = HealthServer(self._settings.health, self._rescuer.health)
        self._signals.install()
        for worker in inherited(os.environ):
            self._adopt(worker)
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

    def _adopt(self, worker: Inherited) -> None:
        """Continue with a worker of the previous program in this process."""
        link = WorkerLink.inherit(worker.link)
        if message := link.message_of(worker.report.encode()):
            self._rescuer.heard(worker.pid, message)
        self._workers.adopt(Child(worker.slot, worker.pid, link, worker.born_at))

    def _release(self) -> None:
        """In a forked process: close everything that only the parent uses."""
        self._signals.close()
        for child in self._workers.all():
            child.link.close()
        self._server.close()
        if self._health is not None:
            self._health.close()

    # ------------------------------------------------------------------------------------ the loop
    def _supervise(self) -> None:
        while True:
            self._listen()
            self._reap()
            now = time.monotonic()
            if self._workers.may_start:
                self._starter.tend(now)
                self._reload(now)
            self._workers.tend(now)
            self._server.listen()  # a worker that has just started may have ended
            self._rescuer.tend(now)
            self._restart.cancel_overdue(now)
            if reason := self._workers.check_memory(now):
                logger.warning("stopping this process: %s", reason)
                self._code = TOO_LARGE
                self._stop()
            self._status.write(self._workers.ready, len(self._workers.slots), stopping=self._stop_by is not None)
            self._check_server()
            if self._workers.hopeless and self._stop_by is None:
                logger.error("no worker started, so the parent exits: see the errors above")
                self._stop()
            ends = self._stop_by is not None or not (self._workers.may_start or self._quieted)
            if ends and not self._workers.all():
                self._finish()
                return
            self._wait(max(0.0, min(self._due()) - time.monotonic()))

    def _reload(self, now: float) -> None:
        if self._sources is not None and (names := self._sources.changes(now)):
            logger.info("reloading: %s", ", ".join(names[:3]) + (", …" if len(names) > 3 else ""))  # a few
            if all(name.endswith(".py") for name in names):
                self._workers.replace()
            else:
                self._restart.check()

    def _wait(self, seconds: float) -> None:
        reading = [child.link.fileno() for child in self._workers.all() if not child.link.closed]
        if self._server.fileno() >= 0:
            reading.append(self._server.fileno())
        writing: list[int] = []
        if self._health is not None:
            reading += self._health.reading()
            writing += self._health.writing()
        for name in self._signals.wait(seconds, reading, writing):
            self._act_on(name)
        for name, error in self._signals.failures():
            logger.error("an earlier handler of %s failed", name, exc_info=error)

    def _due(self) -> Iterator[float]:
        yield time.monotonic() + MAX_PAUSE_SECONDS
        yield from self._workers.due()
        yield self._rescuer.due()
        if self._stop_by is None and self._starter.server is not None:
            yield self._server.start_at
        if self._health is not None:
            yield self._health.due()
        if self._sources is not None and self._workers.may_start:
            yield self._sources.due_at
        yield self._restart.due_at
        yield self._status.due_at

    def _listen(self) -> None:
        for child in self._workers.all():
            self._hear(child)
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
            if pid == self._server.pid:
                self._server.ended(status, restart=self._stop_by is None)
            elif pid == self._restart.pid:
                if self._restart.passed(status) and self._stop_by is None and not self._quieted:
                    self._execute()
            else:
                self._exited(pid, status)

    def _exited(self, pid: int, status: int) -> None:
        """Handle the end of a worker; before the fork server reaps it, or after this process has."""
        for child in self._workers.all():
            if child.pid == pid:
                self._hear(child)
        if self._workers.reaped(pid, status):
            self._rescuer.died(pid, described(status))

    def _check_server(self) -> None:
        """Stop, or continue with the old workers, if the application cannot be loaded."""
        if not self._server.failed or not self._workers.may_start:
            return
        self._workers.may_start = False
        self._broken = True
        if self._workers.all():
            logger.error("the new workers cannot start, the old workers continue: see the errors above")

    # ------------------------------------------------------------------------------------- signals
    def _act_on(self, name: str) -> None:
        if name in STOPS:
            self._stop()
            self._interrupts += name == "INT"
            if self._interrupts > 1 or name == "QUIT":
                # A terminal sends INT to the workers too, `kill` does not. QUIT may arrive before TERM.
                self._workers.send("QUIT")
            elif name == "INT":
                logger.info("press Ctrl-C again to stop at once: running jobs are requeued")
        elif name == "TSTP":
            self._quiet()
        elif name == "TTIN":
            if self._restarts:
                self._workers.log()
            self._workers.send("TTIN")
        elif name == "USR2":
            if self._stop_by is not None or self._quieted:
                logger.warning("ignoring USR2: the workers are quiet or stopping")
            else:
                self._restart.check()

    def _forward(self, number: int) -> None:
        """Pass on a signal that only the application may know."""
        for child in self._workers.all():
            with suppress(ProcessLookupError):
                os.kill(child.pid, number)

    def _stop(self) -> None:
        if self._stop_by is None:
            notify("STOPPING=1")
            self._restart.cancel()
            if self._restarts:
                logger.info("stopping %s", counted(len(self._workers.all()), "worker"))
            self._stop_by = self._workers.stop()
            # A server that does not answer must not delay the exit by a whole step.
            self._rescuer.step_seconds = MIN_RESCUE_SECONDS
            if not self._server.loaded:
                self._server.stop()

    def _quiet(self) -> None:
        self._quieted = True
        self._workers.may_start = False
        if self._restarts:
            logger.info("quiet: workers claim no new jobs, and no worker is started")
        self._workers.send("TSTP")

    def _execute(self) -> None:
        """Replace this program by the new code."""
        logger.info("restarting: new workers take over one by one, old workers exit after their jobs")
        self._rescuer.finish(time.monotonic() + RESCUE_SECONDS)
        self._server.stop()
        self._restart.exec(self._workers.all())

    def _finish(self) -> None:
        """End the fork server, and requeue the jobs of killed workers, but no longer than the stop may take."""
        self._server.stop()
        now = time.monotonic()
        give_up_at = now + RESCUE_SECONDS
        if self._stop_by is not None:
            give_up_at = min(give_up_at, max(now + MIN_RESCUE_SECONDS, self._stop_by - RESCUE_SECONDS))
            give_up_at = min(give_up_at, self._stop_by + LAST_SECONDS)
        self._rescuer.finish(give_up_at)


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


def become_subreaper() -> None:
    """Adopt the workers of a fork server that dies, and the orphans of jobs. Linux only."""
    if sys.platform.startswith("linux"):
        import ctypes

        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
