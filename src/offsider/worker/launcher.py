"""Starts and stops a worker.

Start:

1. Freeze the configuration and check every declared job against it.
2. Call ``startup`` handlers; an error in one aborts the start.
3. Register the owner: the server acknowledges the first beat before the first claim.
4. Start the services (liveness, sweeper, watchdog, heartbeat, discovery, scheduler, switches, those of extensions),
   then the managers with their processors.

Stop (rule 12):

1. Quiet: fetch no more jobs, stop the scheduler. The process does not exit by itself.
2. Stop: quiet, then wait for running jobs, all capsules under one deadline.
3. Interrupt the running jobs, and give each thread a little time (2.5 s) to settle its own outcome.
4. Requeue the remaining jobs, in one last step.
5. Flush the counters, leave the registries, call ``exit`` handlers. The caller then ends the process: threads
   that could not be interrupted still run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from offsider import __version__
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.errors import MalformedPayload, RedisFailure
from offsider.core.payload import decode
from offsider.jobs import registry
from offsider.runtime.leader import Leader
from offsider.storage import descriptors, owners
from offsider.worker.alive.isolation import Isolation
from offsider.worker.alive.keeper.link import KeeperLink, KeeperProcess, Status
from offsider.worker.alive.liveness import Liveness
from offsider.worker.alive.ownership import Ownership
from offsider.worker.alive.sweeper import Sweeper
from offsider.worker.discovery import Discovery
from offsider.worker.fetch.by_name import make_fetcher
from offsider.worker.fetch.fetcher import FetcherContext
from offsider.worker.forked_children import Children
from offsider.worker.health_state import QUIET, READY, STOPPING, HealthState, WorkerHealth
from offsider.worker.heartbeat import Heartbeat
from offsider.worker.manager import Manager
from offsider.worker.parts import WorkerParts
from offsider.worker.run.interrupt import OBSTACLE
from offsider.worker.run.seats import Seats
from offsider.worker.run.stranded import StrandedJobs
from offsider.worker.run.switchboard import Switchboard, Switches
from offsider.worker.run.time_limits import TimeLimits
from offsider.worker.scheduler import Scheduler
from offsider.worker.settle.failures import Failures
from offsider.worker.settle.report import Reporter
from offsider.worker.slo_targets import SloTargets
from offsider.worker.stranded_rescue import StrandedRescue
from offsider.worker.totals import Totals
from offsider.worker.unserved import UnservedQueues
from offsider.worker.watchdog import Watchdog
from offsider.worker.work_state import WorkState

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.series import Series
    from offsider.runtime.service import Service
    from offsider.storage.redis import Redis
    from offsider.worker.fetch.fetcher import Fetcher

logger = logging.getLogger("offsider")

SERVICE_CONNECTIONS = 10
SETTLE_SECONDS = 2.5
# The same for a stop at once: a job in `time.sleep` or in C code is requeued after this time.
HURRIED_SETTLE_SECONDS = 0.5
# Maximum delay of a stop at once.
HURRY_SECONDS = 0.05
SERVICES_END_SECONDS = 0.2
#: Maximum time from the deadline to the return of `stop`, even if Redis is unavailable; documented is timeout + 4 s.
LAST_SECONDS = 3.3
#: Minimum time for event handlers of the stop, even after the deadline.
HANDLER_SECONDS = 0.1


class Launcher:
    """One worker, started once and stopped once.

    Args:
        config: frozen by `start`.
        embedded: the worker runs inside another program, and ignores signals from Redis.
        keeper: receives the worker's identity and state.
        on_signal: handles ``TSTP``, ``TERM`` and ``TTIN`` that were sent through Redis; by default the launcher does.
    """

    def __init__(
        self,
        config: Config,
        *,
        embedded: bool = False,
        keeper: KeeperProcess | None = None,
        on_signal: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.embedded = embedded
        self._keeper = KeeperLink(keeper, self._status) if keeper is not None else None
        self._on_signal = on_signal if on_signal is not None else self._act_on
        self.work_state = WorkState(SloTargets(config).target)
        #: Counts for a health endpoint without a keeper.
        self.totals = Totals()
        self.quieted = False
        self._stop_begun = False
        self._hurried = False
        #: Whether jobs should end early; the worker takes no more jobs by then.
        self.stopping = False
        #: Why the worker stops by itself, with an exit code that makes its supervisor restart it; else empty.
        self.broken = ""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._registered = False
        self._pools: list[Redis] = []
        self._capsule_pools: dict[str, Redis] = {}
        self._heartbeat: Heartbeat | None = None
        self._scheduler: Service | None = None
        self._services: list[Service] = []
        self._managers: list[Manager] = []
        self._fetchers: dict[str, Fetcher] = {}
        self._failures: Failures | None = None

    @property
    def identity(self) -> str:
        """``host:pid:nonce``; changes after this process was declared dead while it was silent."""
        return self._ownership.identity

    def start(self) -> None:
        """Start the worker.

        Raises:
            ConfigurationError, InvalidOptions: the configuration or a declared job is invalid.
            RedisFailure: the first beat failed.
        """
        config = self.config
        config.freeze()
        registry.check_all(config)
        config.events.emit("startup", once=True)
        installation = Installation.of(config)
        if not self.embedded:  # it may end the process, and must not end another program
            descriptors.watch()
        self._redis = installation.make_redis(SERVICE_CONNECTIONS)
        capsules = list(config.capsules.values())
        self._capsule_pools = {each.name: installation.make_redis(each.connections) for each in capsules}
        self._pools = [self._redis, *self._capsule_pools.values()]
        self._ownership = Ownership(
            self._redis,
            {capsule.name: capsule.queues for capsule in capsules},
            config.worker.liveness_seconds,
            self._keeper,
        )
        # Before the registration: factories of extensions may raise, and must not leave a registered owner.
        self._build()
        self._ownership.register()
        self._registered = True
        for service in self._services:
            service.start()
        waits = self._ways_to_wait()
        for manager in self._managers:
            manager.start()
        logger.info("running %s as %s", " and ".join(map(repr, capsules)), self.identity)
        for name, way in waits.items():
            logger.info("capsule %s: idle threads %s", name, way)
        if OBSTACLE:
            logger.info("time limits and stops interrupt async jobs only: %s", OBSTACLE)

    def _ways_to_wait(self) -> dict[str, str]:
        """Return how each capsule waits for jobs. Called before its threads start, which reuse the result."""
        ways: dict[str, str] = {}
        for name, fetcher in self._fetchers.items():
            with suppress(RedisFailure):  # the first fetch reports it
                ways[name] = fetcher.described_wait()
        return {name: way for name, way in ways.items() if way}

    def _build(self) -> None:
        config, redis, ownership = self.config, self._redis, self._ownership
        isolation = self._make_isolation()
        time_limits = TimeLimits(config)
        stranded = StrandedJobs(config, redis)
        switchboard = Switchboard()
        switches = Switches(config, redis, switchboard)
        switches.tick()
        rescue = StrandedRescue(config, redis, quiet=lambda: self.quieted)
        self._failures = Failures(config, redis, lambda: ownership.identity) if config.worker.metrics else None
        reporter = Reporter(config, self.work_state, self._failures, stranded)
        parts = WorkerParts(
            config,
            self.work_state,
            reporter,
            lambda: self.stopping,
            give_up=self._give_up,
            time_limits=time_limits,
            admissions=(switchboard.admit, stranded.admit),
            isolation=isolation,
        )
        for capsule in config.capsules.values():
            seats = Seats(capsule.concurrency, capsule.async_concurrency)
            context = FetcherContext(
                config,
                capsule,
                self._capsule_pools[capsule.name],
                ownership,
                reporter.settled,
                isolation.claims_allowed,
                seats.is_seated,
            )
            fetcher = self._fetchers[capsule.name] = make_fetcher(context)
            isolation.join(fetcher)
            self._managers.append(Manager(parts, context, fetcher, seats))
        audits = [fetcher.audit for fetcher in self._fetchers.values()]
        wakes = {name: fetcher.wake for name, fetcher in self._fetchers.items()}
        self._heartbeat = Heartbeat(
            config,
            redis,
            ownership,
            self.work_state,
            quiet=lambda: self.quieted,
            on_signal=self._on_signal,
            embedded=self.embedded,
            coroutines=lambda: sum(manager.coroutines for manager in self._managers),
            count=self._count if config.worker.health else None,
            beaten=rescue.beaten,
        )
        self._watchdog = Watchdog(config, redis, self._fetchers, None if self.embedded else self._give_up)
        self._scheduler = Scheduler(config, redis, Client(config, redis))
        self._services = [
            Liveness(config, ownership, audits, self._keeper),
            Sweeper(config, redis, ownership),
            self._watchdog,
            self._heartbeat,
            self._scheduler,
            *([self._failures] if self._failures is not None else []),
            time_limits,
            Children(self.work_state, config.handle_error),
            rescue,
            switches,
            UnservedQueues(config, redis),
            *([self._make_leader()] if config.wants_leadership else []),
            *(factory(config) for factory in config.services),
        ]
        everything = [capsule for capsule in config.capsules.values() if capsule.all_queues]
        if everything:
            discovery = Discovery(config, redis, ownership, everything, wakes)
            discovery.tick()
            self._services.append(discovery)

    def _count(self, series: Sequence[Series], busy: int, concurrency: int) -> None:
        if self._keeper is not None:
            self._keeper.count(series, busy, concurrency)
        else:
            self.totals.add(os.getpid(), series, busy, concurrency)

    def _make_leader(self) -> Leader:
        config = self.config
        elected = partial(config.events.emit, "leader")
        # One leader for the workers of all servers.
        here = Installation.of(config, MAIN)
        return Leader(here.redis, lambda: self.identity, here.leadership, elected, on_error=config.handle_error)

    def _make_isolation(self) -> Isolation:
        return Isolation(
            self._redis,
            lambda: {name: self._ownership.registered(name) for name in self.config.capsules},
            max_strikes=self.config.worker.max_strikes,
            leaving=lambda: self.quieted,
        )

    def quiet(self) -> None:
        """Stop claiming jobs. Running jobs continue, and the process does not exit. May be called twice."""
        self._take_no_more()
        self.config.events.emit("quiet", once=True)

    def _take_no_more(self) -> None:
        with self._lock:
            if self.quieted:
                return
            self.quieted = True
        for manager in self._managers:
            manager.quiet()
        logger.info("quiet: no further jobs are taken")  # log it after the fact: readers rely on it
        self._tell_keeper()
        if self._scheduler is not None:
            self._scheduler.stop()

    def stop(self) -> None:
        """Stop the worker, with a deadline ``worker.timeout_seconds`` from now, and return when it has stopped.

        A second call waits for the first.
        """
        with self._lock:
            first = not self._stop_begun
            self._stop_begun = True
        if not first:
            self._stopped.wait()
            return
        before = self.work_state.ended
        deadline = time.monotonic() + self.config.worker.timeout_seconds
        self._take_no_more()
        # Not before: a job that reschedules itself because of the stop would start here again.
        self.stopping = True
        # In its own thread: the stop must not wait for Redis.
        threading.Thread(target=self._note_stop, name="offsider-stopping", daemon=True).start()
        self._tell_keeper()
        self._announce("quiet", deadline)
        self._announce("shutdown", deadline)
        self._wind_down(deadline)
        # Redis may be unavailable, so the last commands have a time limit.
        farewell = threading.Thread(target=self._farewell, name="offsider-farewell", daemon=True)
        farewell.start()
        farewell.join(max(0.5, deadline + LAST_SECONDS - time.monotonic()))
        self._announce("exit", deadline + LAST_SECONDS)
        ended = self.work_state.ended.plus(requeued=sum(manager.unstarted for manager in self._managers))
        logger.info("stopped: %s", ended.since(before))
        self._stopped.set()

    def hurry(self) -> None:
        """Give running jobs no more time in the current or next stop: they are interrupted and requeued."""
        self._hurried = True

    def _note_stop(self) -> None:
        """Record the stop: if this process is killed now, its jobs get no strike."""
        if self._registered:
            with suppress(RedisFailure):
                owners.note_stop(self._redis, self.identity)

    def _announce(self, event: str, until: float) -> None:
        """Call the handlers of an event with a time limit: a handler that hangs must not prevent requeueing."""
        emit = partial(self.config.events.emit, event, once=True)
        teller = threading.Thread(target=emit, name=f"offsider-{event}", daemon=True)
        teller.start()
        teller.join(max(HANDLER_SECONDS, until - time.monotonic()))
        if teller.is_alive():
            logger.warning("handlers of %s are still running; the stop continues without waiting for them", event)

    def _wind_down(self, deadline: float) -> None:
        for manager in self._managers:
            # In short waits, because `hurry` may end them.
            while not self._hurried and time.monotonic() < deadline:
                if manager.wait(min(deadline, time.monotonic() + HURRY_SECONDS)):
                    break
        still = [manager for manager in self._managers if not manager.wait(0)]
        if not still:
            return
        if not self._hurried:
            logger.info("the deadline has passed: interrupting the jobs that still run")
        for manager in still:
            manager.interrupt()
        settled_by = time.monotonic() + (HURRIED_SETTLE_SECONDS if self._hurried else SETTLE_SECONDS)
        for manager in still:
            manager.wait(settled_by)

    def _farewell(self) -> None:
        for manager in self._managers:
            manager.give_back()
        self._end_services()
        if self._registered and self._heartbeat is not None:
            if self._failures is not None:
                self._failures.flush()
            flushes = (self._heartbeat.flush_metrics, self._heartbeat.flush_counters)
            for last in (*flushes, self._heartbeat.leave, self._ownership.leave):
                try:
                    last()
                except RedisFailure as error:
                    self.config.handle_error(error, {"context": "leaving the registries"})
        for manager in self._managers:
            manager.close()
        for pool in self._pools:
            pool.close()

    def _end_services(self) -> None:
        for service in self._services:
            service.stop()
        # A beat under way would register this process again after it has left.
        give_up = time.monotonic() + SERVICES_END_SECONDS
        for service in self._services:
            service.join(max(0.0, give_up - time.monotonic()))

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until `stop` has finished; True if it has."""
        return self._stopped.wait(timeout_seconds)

    def state(self) -> str:
        """Return ``"ready"``, ``"quiet"`` or ``"stopping"``, for the health endpoint."""
        if self.stopping:
            return STOPPING
        return QUIET if self.quieted else READY

    def health(self) -> HealthState:
        """Return the health of this started worker, for a health endpoint without a keeper."""
        now = time.monotonic()
        life_seconds, beaten_at = self.config.worker.liveness_seconds, self._ownership.beaten_at
        pid = os.getpid()
        worker = WorkerHealth(pid, self.identity, self.state(), life_seconds, beaten_at, now, self._watchdog.stuck())
        return HealthState(workers={pid: worker})

    def _status(self) -> Status:
        # The first report is the registration of the owner, when all parts exist.
        return Status(self.state(), self._watchdog.stuck(), self.config.worker.max_strikes)

    def _tell_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.repeat()

    def title(self) -> str:
        """Return the process title: name, version, tag, busy threads, and whether the worker is stopping."""
        words = ["offsider", __version__, self.config.worker.tag]
        concurrency = sum(capsule.concurrency for capsule in self.config.capsules.values())
        words.append(f"[{self.work_state.busy} of {concurrency} busy]")
        if self.quieted:
            words.append("stopping")
        return " ".join(word for word in words if word)

    def look_at_descriptors(self) -> None:
        """End the process if a job has closed its descriptors; called before the use of a descriptor."""
        descriptors.look()

    def running_jobs(self) -> list[str]:
        """Return name and jid of each running job."""
        return [_named(work.unit.raw) for work in self.work_state.running().values()]

    def async_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks of running async jobs, for a dump."""
        return [task for manager in self._managers for task in manager.async_runner.tasks()]

    def _give_up(self, reason: str) -> None:
        self.broken = reason
        self._on_signal("TERM")

    def _act_on(self, signal: str) -> None:
        # A stop waits for the heartbeat's thread, which calls this, so run the action in a new thread.
        action = {"TSTP": self.quiet, "TERM": self.stop, "INT": self.stop}.get(signal)
        if action is not None:
            threading.Thread(target=action, name=f"offsider-{signal}", daemon=True).start()
        else:
            logger.warning("ignoring the signal %s: a worker does not handle it", signal)


def _named(raw: bytes) -> str:
    try:
        payload = decode(raw)
    except MalformedPayload:
        return "malformed payload"
    return f"{payload.get('class')} jid={payload.get('jid')}"
