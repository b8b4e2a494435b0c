"""The supervisor: one thread, no connection, and, unless it preloads, nothing of the application.

1. Fork the keeper, before anything else is there.
2. With ``preload``: load the application, and refuse to fork beside threads.
3. Fork the workers. They tell over their tethers when they run.
4. Sleep until a signal comes, a worker tells something, or something is due: restart, replace, kill.
5. TERM and INT stop all workers, TSTP quiets them, TTIN has them dump, USR2 replaces them all by new ones with new
   code: this process executes itself anew and keeps its number.
6. When the last worker has ended the keeper gives back what a killed one held, and the supervisor ends.

Whoever ends is reaped, orphans of jobs as well when this is PID 1. The keeper is restarted alone.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.cli import systemd
from offsider.cli.boot import configured, load, start_embedded_server
from offsider.cli.health import HealthServer
from offsider.cli.keeper import fork_keeper, warn_of_no_keeper
from offsider.cli.signals import NAMES, STOPS, SignalQueue, StoppedEarly
from offsider.cli.supervisor.backoff import Backoff
from offsider.cli.supervisor.crew import Crew, described
from offsider.cli.supervisor.nursery import Nursery, WorkAs
from offsider.cli.supervisor.succession import hand_over, hear, inherited
from offsider.cli.supervisor.threads import refuse_threads
from offsider.cli.title import title_setter
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.core.wording import counted
from offsider.wiring.logs import logger
from offsider.worker.keeper.channel import Channel
from offsider.worker.keeper.messages import Orders, encode
from offsider.worker.memory_limits import LOOK_SECONDS, MemoryLimits
from offsider.worker.resident_memory import resident_kilobytes

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.wiring.config import Config

LONGEST_PAUSE_SECONDS = 60.0
# For the keeper of the program before to let go of the address of the health endpoint.
HEALTH_SECONDS = 3.0
# For the keeper to give back what killed workers held.
KEEPER_SECONDS = 2.0
# From the time by which every worker is killed to the promised end.
LAST_SECONDS = 0.3


class Supervisor:
    """Runs the workers of a command line.

    Args:
        options: the command line.
        config: as it is before the application has its say.
        work_as: what a forked worker does.
    """

    def __init__(self, options: WorkerOptions, config: Config, work_as: WorkAs) -> None:
        self._options = options
        self._config = config
        self._channel = Channel() if config.worker.keeper else None
        self._health: HealthServer | None = None
        self._keeper_pid = 0
        self._keeper_backoff = Backoff()
        self._keeper_born_at = 0.0
        self._keeper_start_at = 0.0
        self._signals = SignalQueue((*NAMES, "CHLD"))
        self._nursery = Nursery(
            options, config, self._channel, self._signals, work_as=work_as, let_go=self._let_go_in_worker
        )
        size = config.worker.processes or len(config.worker.groups)
        self._crew = Crew(self._nursery, size, lambda: self._config.worker.timeout_seconds)
        self._stop_by: float | None = None
        self._quieted = False
        self._broken = False
        self._told_ready = False
        self._look_at = 0.0
        self._title = ""
        self._set_title = title_setter()
        self._watchdog_seconds = systemd.watchdog_seconds()
        self._watchdog_at = 0.0

    def run(self) -> int:
        """Returns the exit code once the last worker has ended.

        Raises:
            ConfigurationError: the application cannot be preloaded; no worker was started.
        """
        for child in inherited(self._nursery, os.environ):
            self._crew.adopt(child)
        self._health = self._health_server()
        if self._channel is None:
            warn_of_no_keeper(self._config)
        self._start_keeper()
        with ExitStack() as resources:
            try:
                self._prepare(resources)
            except StoppedEarly:
                self._signals.booting = False
                self._stop()
            except OffsiderError as error:
                self._signals.booting = False
                if not self._crew.everyone():
                    raise
                self._broken = True
                self._crew.hiring = False
                logger.error("the new workers cannot start, those of before go on: %s", error)
            self._supervise()
        return 1 if self._broken or self._crew.hopeless or self._crew.killed else 0

    def _prepare(self, resources: ExitStack) -> None:
        self._signals.booting = True
        self._signals.install()
        hear()
        options = self._options
        if options.embedded:
            # Before all others, and by this process alone: the workers find it where everybody looks for a server.
            os.environ["OFFSIDER_REDIS_URL"] = start_embedded_server(resources)
            options = replace(options, embedded=False)
        preloaded = None
        if self._config.worker.preload:
            preloaded = self._config = load(options, resources)
            refuse_threads()
            self._signals.install()
        self._nursery.use(options, preloaded)
        # What is here now is shared by all workers as long as nobody writes to it, the collector included.
        gc.collect()
        gc.freeze()
        self._signals.booting = False

    # ------------------------------------------------------------------------------------ the loop
    def _supervise(self) -> None:
        while True:
            self._reap()
            now = time.monotonic()
            self._crew.tend(now)
            self._tend_keeper(now)
            self._look_at_memory(now)
            self._tell(now)
            if self._crew.hopeless and self._stop_by is None:
                logger.error("no worker has come to run: giving up")
                self._stop()
            if self._stop_by is not None and not self._crew.everyone():
                self._part_with_keeper()
                return
            if not self._crew.hiring and not self._crew.everyone() and not self._quieted:
                return
            tethers = [child.tether.fileno() for child in self._crew.everyone() if not child.ready]
            for name in self._signals.wait(self._pause_seconds(), tethers):
                self._act_on(name)
            for name, error in self._signals.failures():
                logger.error("an earlier handler of %s failed", name, exc_info=error)

    def _pause_seconds(self) -> float:
        return max(0.0, min(self._due()) - time.monotonic())

    def _due(self) -> Iterator[float]:
        yield time.monotonic() + LONGEST_PAUSE_SECONDS
        yield from self._crew.due()
        if self._channel is not None and not self._keeper_pid:
            yield self._keeper_start_at
        if MemoryLimits.of(self._config.worker).any:
            yield self._look_at
        if self._watchdog_seconds is not None:
            yield self._watchdog_at

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._keeper_pid:
                self._keeper_ended(status)
            else:
                self._crew.reaped(pid, status)

    def _look_at_memory(self, now: float) -> None:
        if now < self._look_at or self._stop_by is not None or not self._crew.hiring:
            return
        self._look_at = now + LOOK_SECONDS
        for place in self._crew.places:
            child = place.child
            if child is not None and child.ready:
                reason = child.memory.too_much(resident_kilobytes(child.pid), now)
                if reason:
                    self._crew.replace(child, reason)

    def _tell(self, now: float) -> None:
        ready, wanted = self._crew.ready, len(self._crew.places)
        words = ["offsider", __version__, self._config.worker.tag, f"supervisor [{ready} of {wanted} run]"]
        title = " ".join(word for word in (*words, "stopping" if self._stop_by is not None else "") if word)
        if title != self._title:
            self._set_title(title)
            self._title = title
        if ready == wanted and not self._told_ready:
            self._told_ready = True
            logger.info("now running: %s", counted(wanted, "worker"))
            systemd.notify("READY=1")
        if self._watchdog_seconds is not None and now >= self._watchdog_at:
            systemd.notify("WATCHDOG=1")
            self._watchdog_at = now + self._watchdog_seconds

    # ------------------------------------------------------------------------------------- signals
    def _act_on(self, name: str) -> None:
        if name in STOPS:
            self._stop()
        elif name == "TSTP":
            self._quiet()
        elif name == "TTIN":
            self._tell_who_is_there()
            self._crew.send("TTIN")
        elif name == "USR2":
            self._start_anew()

    def _stop(self) -> None:
        if self._stop_by is None:
            systemd.notify("STOPPING=1")
            logger.info("stopping %s", counted(len(self._crew.everyone()), "worker"))
            self._stop_by = self._crew.stop()

    def _quiet(self) -> None:
        self._quieted = True
        self._crew.hiring = False
        logger.info("quiet: no worker takes further jobs, and none is started")
        self._crew.send("TSTP")

    def _start_anew(self) -> None:
        if self._stop_by is not None or self._quieted:
            logger.warning("USR2 comes too late: the workers are quiet or stopping")
            return
        try:
            configured(self._options)
        except OffsiderError as error:
            logger.error("no restart, the workers go on: %s", error)
            return
        logger.info("restarting: new workers take over one by one, the old ones end when their jobs have")
        self._order(no_more=True)
        try:
            hand_over(self._crew.everyone())
        except OSError as error:
            self._order()
            logger.error("no restart, the workers go on: %s cannot be executed: %s", sys.executable, error)

    def _tell_who_is_there(self) -> None:
        for child in self._crew.everyone():
            state = "on its way out" if child.pid in self._crew.leaving else "runs" if child.ready else "starts"
            age = time.monotonic() - child.born_at
            logger.info("worker %d: process %d %s, %.0f s old", child.place + 1, child.pid, state, age)

    # -------------------------------------------------------------------------------------- keeper
    def _health_server(self) -> HealthServer | None:
        """Bound here, so that every keeper can serve it; only a keeper may, since this process has one thread."""
        address = self._config.worker.health
        if not address:
            return None
        if self._channel is None:
            raise ConfigurationError("--health with --processes is served by the keeper: leave --no-keeper out")
        give_up_at = time.monotonic() + (HEALTH_SECONDS if self._crew.everyone() else 0.0)
        while True:
            try:
                return HealthServer(address, shard=self._config.worker.shard)
            except ConfigurationError as error:
                if not self._crew.everyone():
                    raise
                if time.monotonic() >= give_up_at:  # the keeper of before still has it: rather this than no workers
                    logger.error("%s", error)
                    return None
                time.sleep(0.05)

    def _start_keeper(self) -> None:
        if self._channel is not None:
            self._keeper_born_at = time.monotonic()
            self._keeper_pid = fork_keeper(self._config, self._channel, os.getpid(), self._health, self._let_go)
            self._order()

    def _let_go(self) -> None:
        """In the keeper: the tethers are to close with the supervisor, and its signals are its own."""
        self._signals.close()
        for child in self._crew.everyone():
            child.tether.close()

    def _let_go_in_worker(self) -> None:
        """In a worker: the keeper answers on this port, also when the worker outlives the supervisor."""
        if self._health is not None:
            self._health.close()

    def _tend_keeper(self, now: float) -> None:
        if not self._keeper_pid and self._stop_by is None and now >= self._keeper_start_at:
            self._start_keeper()

    def _keeper_ended(self, status: int) -> None:
        now = time.monotonic()
        self._keeper_pid = 0
        pause_seconds = self._keeper_backoff.pause_seconds(now - self._keeper_born_at)
        self._keeper_start_at = now + pause_seconds
        if self._stop_by is None:
            logger.error("the keeper %s; another one is started in %g s", described(status), pause_seconds)

    def _order(self, *, no_more: bool = False) -> None:
        if self._channel is not None:
            self._channel.send(encode(Orders(len(self._crew.places), no_more)))

    def _part_with_keeper(self) -> None:
        """Wait until it has given back what killed workers held, within what a stop may take."""
        self._order(no_more=True)
        latest = (self._stop_by or 0.0) + LAST_SECONDS
        give_up_at = min(time.monotonic() + KEEPER_SECONDS, latest)
        while self._keeper_pid and time.monotonic() < give_up_at:
            self._signals.wait(min(0.05, max(0.0, give_up_at - time.monotonic())))
            self._reap()
