"""Brings a worker up and down.

Up:

1. Freeze the configuration and check every declared job against it.
2. ``startup`` handlers; an error of theirs aborts.
3. Register the owner: the first beat is acknowledged before the first claim.
4. Start the services (liveness, sweeper, watchdog, heartbeat, discovery, scheduler, switches, those of extensions),
   then the managers with their processors.

Down (rule 12):

1. Quiet: no further jobs, no scheduler. The process does not end by itself.
2. Stop: quiet, then wait for running jobs, all capsules under one deadline.
3. Interrupt what runs, and leave each thread a little time (2.5 s) to settle its own outcome.
4. Give back what is left, in one last step.
5. Flush the counters, leave the registries, ``exit`` handlers. The caller then ends the process: threads
   that could not be interrupted are still there.
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
from offsider.core.errors import MalformedPayload, RedisFailure
from offsider.core.payload import decode
from offsider.jobs import registry
from offsider.storage import owners
from offsider.wiring.leader import Leader, Leadership
from offsider.wiring.routing import MAIN
from offsider.worker.ability import Abilities
from offsider.worker.discovery import Discovery
from offsider.worker.failures import Failures
from offsider.worker.fetcher import ReliableFetcher
from offsider.worker.fetchers import make_fetcher
from offsider.worker.health_state import QUIET, READY, STOPPING, HealthState, WorkerHealth
from offsider.worker.heartbeat import Heartbeat
from offsider.worker.liveness import Liveness
from offsider.worker.manager import Manager
from offsider.worker.ownership import Ownership
from offsider.worker.promises import Promises
from offsider.worker.run_sums import RunSums
from offsider.worker.scheduler import Scheduler
from offsider.worker.solitude import Claimer, Solitude
from offsider.worker.sweeper import Sweeper
from offsider.worker.switchboard import Switchboard, Switches
from offsider.worker.time_limits import TimeLimits
from offsider.worker.unparking import Unparking
from offsider.worker.watchdog import Watchdog, Watched
from offsider.worker.work_state import WorkState

if TYPE_CHECKING:
    from offsider.core.series import Series
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config
    from offsider.wiring.service import Service
    from offsider.worker.keeper.link import KeeperLink

logger = logging.getLogger("offsider")

SERVICE_CONNECTIONS = 10
SETTLE_SECONDS = 2.5
SERVICES_END_SECONDS = 0.2
#: From the deadline to the return of `stop`, whatever Redis does; the promise is timeout + 4 s.
LAST_SECONDS = 3.3
#: What handlers of the stop's events get when its time is used up already.
HANDLER_SECONDS = 0.1


class Launcher:
    """One worker. Made once, started once, stopped once.

    Args:
        config: frozen by `start`.
        embedded: the worker lives inside another program: signals left in Redis are not acted upon.
        keeper: told who the worker is and how it fares.
    """

    def __init__(self, config: Config, *, embedded: bool = False, keeper: KeeperLink | None = None) -> None:
        self.config = config
        self.embedded = embedded
        self._keeper = keeper
        if keeper is not None:
            keeper.state = self.state
        #: What is done about ``TSTP``, ``TERM`` and ``TTIN`` that others left in Redis.
        self.on_signal: Callable[[str], None] = self._act_on
        self.work_state = WorkState(Promises(config).target)
        #: What was counted, for a health endpoint without a keeper.
        self.sums = RunSums()
        self.quieted = False
        self.stopping = False
        #: Why the worker stops by itself, and shall end with an exit code that has it started anew; empty when not.
        self.broken = ""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._registered = False
        self._pools: list[Redis] = []
        self._heartbeat: Heartbeat | None = None
        self._scheduler: Service | None = None
        self._services: list[Service] = []
        self._managers: list[Manager] = []
        self._fetchers: dict[str, ReliableFetcher] = {}
        self._failures: Failures | None = None

    @property
    def identity(self) -> str:
        """``host:pid:nonce``; changes when others declared this process dead while it was silent."""
        return self._ownership.identity

    def start(self) -> None:
        """Bring the worker up.

        Raises:
            ConfigurationError, InvalidOptions: the configuration or a declared job is wrong.
            RedisFailure: the server did not take the first beat.
        """
        config = self.config
        config.freeze()
        registry.check_all(config)
        config.events.emit("startup", once=True)
        if self._keeper is not None:
            self._keeper.max_strikes = config.worker.max_strikes
        self._redis = config.make_redis(SERVICE_CONNECTIONS)
        capsules = list(config.capsules.values())
        self._pools = [self._redis, *(capsule.redis for capsule in capsules)]
        self._ownership = Ownership(
            self._redis,
            {capsule.name: capsule.queues for capsule in capsules},
            config.worker.liveness_seconds,
            self._keeper,
        )
        # First, because what extensions make may fail, and shall leave no owner behind.
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
            logger.info("idle threads of capsule %s wait %s", name, way)

    def _ways_to_wait(self) -> dict[str, str]:
        """How each capsule waits; asked before its threads start, which then know."""
        ways: dict[str, str] = {}
        for name, fetcher in self._fetchers.items():
            with suppress(RedisFailure):  # whoever fetches reports it
                ways[name] = fetcher.way.described
        return ways

    def _build(self) -> None:
        config, redis, ownership = self.config, self._redis, self._ownership
        audits: list[Callable[[], None]] = []
        wakes: dict[str, Callable[[], None]] = {}
        watched: dict[str, Watched] = {}
        solitude = self._make_solitude()
        time_limits = TimeLimits(config)
        abilities = Abilities(config, redis)
        switchboard = Switchboard()
        switches = Switches(config, redis, switchboard)
        switches.tick()
        unparking = Unparking(config, redis, abilities, quiet=lambda: self.quieted)
        self._failures = Failures(config, redis, lambda: ownership.identity) if config.worker.metrics else None
        for capsule in config.capsules.values():
            fetcher = make_fetcher(config, capsule, ownership)
            if isinstance(fetcher, ReliableFetcher):
                audits.append(fetcher.audit)
                wakes[capsule.name] = fetcher.wake
                self._fetchers[capsule.name] = fetcher
            if isinstance(fetcher, Claimer):
                solitude.join(fetcher)
            if isinstance(fetcher, Watched):
                watched[capsule.name] = fetcher
            manager = Manager(
                config,
                capsule,
                fetcher,
                self.work_state,
                lambda: self.stopping,
                time_limits=time_limits,
                give_up=self._give_up,
                failures=self._failures,
                switchboard=switchboard,
                abilities=abilities,
            )
            self._managers.append(manager)
        for manager in self._managers:
            manager.solitude = solitude
        self._heartbeat = Heartbeat(
            config,
            redis,
            ownership,
            self.work_state,
            quiet=lambda: self.quieted,
            on_signal=lambda signal: self.on_signal(signal),  # noqa: PLW0108 - assigned after the start
            embedded=self.embedded,
            count=self._count if config.worker.health else None,
            beaten=unparking.look,
        )
        watchdog = Watchdog(config, redis, watched, None if self.embedded else self._give_up)
        self._stuck = watchdog.stuck
        if self._keeper is not None:
            self._keeper.stuck = watchdog.stuck
        self._scheduler = Scheduler(config, redis, Client(config, redis))
        self._services = [
            Liveness(config, ownership, audits, self._keeper),
            Sweeper(config, redis, ownership),
            watchdog,
            self._heartbeat,
            self._scheduler,
            *([self._failures] if self._failures is not None else []),
            time_limits,
            unparking,
            switches,
            *([self._make_leader()] if config.stands_for_election else []),
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
            self.sums.add(os.getpid(), series, busy, concurrency)

    def _make_leader(self) -> Leader:
        config = self.config
        leadership = config.kept.get(Leadership, Leadership)
        elected = partial(config.events.emit, "leader")
        # One for the workers of all servers.
        redis = config.redis_of(MAIN)
        return Leader(redis, lambda: self.identity, leadership, elected, on_error=config.handle_error)

    def _make_solitude(self) -> Solitude:
        return Solitude(
            self._redis,
            lambda: {name: self._ownership.registered(name) for name in self.config.capsules},
            max_strikes=self.config.worker.max_strikes,
            leaving=lambda: self.quieted,
        )

    def quiet(self) -> None:
        """Take no further jobs. Running ones go on, and the process stays. May be called twice."""
        self._take_no_more()
        self.config.events.emit("quiet", once=True)

    def _take_no_more(self) -> None:
        with self._lock:
            if self.quieted:
                return
            self.quieted = True
        for manager in self._managers:
            manager.quiet()
        logger.info("quiet: no further jobs are taken")  # once it is so: whoever reads it relies on that
        self._tell_keeper()
        if self._scheduler is not None:
            self._scheduler.stop()

    def stop(self) -> None:
        """Come to an end by the deadline ``worker.timeout_seconds`` from now; returns when it is done.

        A second call waits for the first.
        """
        with self._lock:
            first = not self.stopping
            self.stopping = True
        if not first:
            self._stopped.wait()
            return
        deadline = time.monotonic() + self.config.worker.timeout_seconds
        # Beside the stop, which must not wait for Redis.
        threading.Thread(target=self._note_stop, name="offsider-stopping", daemon=True).start()
        self._tell_keeper()
        self._take_no_more()
        self._announce("quiet", deadline)
        self._announce("shutdown", deadline)
        self._wind_down(deadline)
        # Redis may be away: what is left to say is said beside a clock.
        farewell = threading.Thread(target=self._farewell, name="offsider-farewell", daemon=True)
        farewell.start()
        farewell.join(max(0.5, deadline + LAST_SECONDS - time.monotonic()))
        self._announce("exit", deadline + LAST_SECONDS)
        self._stopped.set()

    def _note_stop(self) -> None:
        """Who is killed during a stop was not killed by a job."""
        if self._registered:
            with suppress(RedisFailure):
                owners.note_stop(self._redis, self.identity)

    def _announce(self, event: str, until: float) -> None:
        """Call the handlers of an event beside a clock: one that hangs must not keep jobs from being given back."""
        emit = partial(self.config.events.emit, event, once=True)
        teller = threading.Thread(target=emit, name=f"offsider-{event}", daemon=True)
        teller.start()
        teller.join(max(HANDLER_SECONDS, until - time.monotonic()))
        if teller.is_alive():
            logger.warning("handlers of %s still run: the stop goes on without them", event)

    def _wind_down(self, deadline: float) -> None:
        for manager in self._managers:
            manager.wait(deadline)
        still = [manager for manager in self._managers if not manager.wait(0)]
        if not still:
            return
        logger.info("the deadline has passed: interrupting what still runs")
        for manager in still:
            manager.interrupt()
        settled_by = time.monotonic() + SETTLE_SECONDS
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
        # A beat that is under way would put us back into the registries that we are about to leave.
        give_up = time.monotonic() + SERVICES_END_SECONDS
        for service in self._services:
            service.join(max(0.0, give_up - time.monotonic()))

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until `stop` is done; True when it is."""
        return self._stopped.wait(timeout_seconds)

    def state(self) -> str:
        """``"ready"``, ``"quiet"`` or ``"stopping"``, as a health endpoint shows it."""
        if self.stopping:
            return STOPPING
        return QUIET if self.quieted else READY

    def health(self) -> HealthState:
        """How this started worker fares, for a health endpoint without a keeper."""
        now = time.monotonic()
        life_seconds, beaten_at = self.config.worker.liveness_seconds, self._ownership.beaten_at
        pid = os.getpid()
        worker = WorkerHealth(pid, self.identity, self.state(), life_seconds, beaten_at, now, tuple(self._stuck()))
        return HealthState(workers={pid: worker})

    def _tell_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.repeat()

    def title(self) -> str:
        """The process title: name, version, tag, how many threads are busy, and whether it is going."""
        words = ["offsider", __version__, self.config.worker.tag]
        concurrency = sum(capsule.concurrency for capsule in self.config.capsules.values())
        words.append(f"[{self.work_state.busy} of {concurrency} busy]")
        if self.quieted:
            words.append("stopping")
        return " ".join(word for word in words if word)

    def running_jobs(self) -> list[str]:
        """What runs right now: name and jid of each job."""
        return [_named(work.unit.raw) for work in self.work_state.running().values()]

    def async_tasks(self) -> list[asyncio.Task[Any]]:
        """The coroutines of jobs that run right now, for a dump."""
        return [task for manager in self._managers for task in manager.async_runner.tasks()]

    def _give_up(self, reason: str) -> None:
        self.broken = reason
        self.on_signal("TERM")

    def _act_on(self, signal: str) -> None:
        # Called by the heartbeat's thread, which a stop waits for: so elsewhere.
        action = {"TSTP": self.quiet, "TERM": self.stop, "INT": self.stop}.get(signal)
        if action is not None:
            threading.Thread(target=action, name=f"offsider-{signal}", daemon=True).start()
        else:
            logger.warning("the signal %s means nothing here", signal)


def _named(raw: bytes) -> str:
    try:
        payload = decode(raw)
    except MalformedPayload:
        return "bytes that are no job"
    return f"{payload.get('class')} jid={payload.get('jid')}"
