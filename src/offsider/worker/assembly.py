"""Puts the parts of one worker together, by constructors only.

Nothing here has started yet: `Launcher` starts and stops the parts. Add a new service of the engine to `services`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from offsider.client import Client
from offsider.client.spooling import Spooling
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.errors import RedisFailure
from offsider.core.payload import use_msgspec
from offsider.runtime.leader import Leader
from offsider.storage.processes import CANCEL
from offsider.worker.alive.isolation import Isolation
from offsider.worker.alive.ownership import Liveness, Ownership
from offsider.worker.alive.parent_link import ParentLink
from offsider.worker.alive.sweeper import Sweeper
from offsider.worker.controls import ControlsReader, KnownControls
from offsider.worker.fetch.fetcher import FetcherContext, make_fetcher
from offsider.worker.health_state import Report
from offsider.worker.heartbeat import Heartbeat
from offsider.worker.manager import Manager
from offsider.worker.parts import Lifecycle, WorkerParts
from offsider.worker.run.cancellation import Cancellation, jid_of
from offsider.worker.run.control_admission import Admission
from offsider.worker.run.control_rules import ControlRules
from offsider.worker.run.finishing import takes_jobs
from offsider.worker.run.interrupt import Injection
from offsider.worker.run.slots import Slots
from offsider.worker.run.stranded import StrandedCheck, StrandedRescue
from offsider.worker.run.time_limits import TimeLimits
from offsider.worker.run_writer import target_of
from offsider.worker.sampler import Sampler
from offsider.worker.scheduler import Scheduler
from offsider.worker.served_queues import Discovery
from offsider.worker.settle.failures import Failures
from offsider.worker.settle.report import Reporter
from offsider.worker.slow_runs import SlowRuns
from offsider.worker.watchdog import Watchdog
from offsider.worker.work_state import WorkState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsider.config.config import Config
    from offsider.runtime.context import Reach
    from offsider.runtime.service import Service
    from offsider.storage.redis import Redis
    from offsider.worker.fetch.fetcher import Fetcher
    from offsider.worker.run.isolated import IsolatedChildren
    from offsider.worker.unit_of_work import UnitOfWork

SERVICE_CONNECTIONS = 10


class Pools:
    """The connection pools of one worker: one for the services, and one for each capsule, by its name."""

    def __init__(self, config: Config) -> None:
        installation = Installation.of(config)
        self.services = installation.make_redis(SERVICE_CONNECTIONS)
        self.capsules: dict[str, Redis] = {
            capsule.name: installation.make_redis(capsule.connections) for capsule in config.capsules.values()
        }

    def close(self) -> None:
        for pool in (self.services, *self.capsules.values()):
            pool.close()


class Assembly:
    """The parts of one worker.

    Attributes:
        redis: the pool of the services.
        work_state: the running jobs, and the counters of this process.
        parent: the link to the parent process, if there is one.
        ownership: the registration of this process as the owner of its private lists.
        managers: one for each capsule.
        services: everything with a thread of its own, in the order of the start.
    """

    def __init__(
        self,
        config: Config,
        pools: Pools,
        lifecycle: Lifecycle,
        parent: ParentLink | None,
        children: IsolatedChildren | None,
        *,
        embedded: bool,
    ) -> None:
        use_msgspec()
        self.redis = redis = pools.services
        self._config = config
        self._lifecycle = lifecycle
        self.work_state = WorkState(
            partial(target_of, config), recorded_per_second=config.worker.recorded_runs_per_second
        )
        self.parent = parent
        if parent is not None:
            parent.use(self._complete)
        self.ownership = Ownership(
            redis,
            {capsule.name: capsule.queues for capsule in config.capsules.values()},
            config.worker.liveness_seconds,
            parent,
        )
        self.failures = Failures(config, redis, lambda: self.ownership.identity)
        self.managers: list[Manager] = []
        self._fetchers: dict[str, Fetcher] = {}
        self._controls = KnownControls()

        stranded = StrandedCheck(config, redis)
        rules = ControlRules(config, redis)
        slots = Slots(config, redis, rules, self._controls)
        rescue = StrandedRescue(config, redis, quiet=lambda: lifecycle.quieted)
        time_limits = TimeLimits(config)
        isolation = Isolation(
            redis,
            lambda: {name: self.ownership.registered(name) for name in config.capsules},
            max_strikes=config.worker.max_strikes,
            leaving=lambda: lifecycle.quieted,
        )
        shared = WorkerParts(
            config,
            self.work_state,
            Reporter(config, self.work_state, self.failures, stranded),
            lambda: lifecycle.stopping,
            give_up=lifecycle.give_up,
            time_limits=time_limits,
            admissions=(Admission(config, redis, rules, slots, stranded),),
            isolation=isolation,
            children=children,
        )
        if children is not None:
            children.broken = lifecycle.give_up
        self._add_capsules(shared, isolation, pools)
        self.heartbeat = Heartbeat(
            config,
            redis,
            self.ownership,
            self.work_state,
            quiet=lambda: lifecycle.quieted,
            embedded=embedded,
            coroutines=lambda: sum(manager.coroutines for manager in self.managers),
            count=parent.count if parent is not None and config.worker.health else None,
            beaten=rescue.beaten,
        )
        reader = ControlsReader(
            config,
            redis,
            self._controls,
            rules,
            identity=lambda: self.heartbeat.identity,
            on_signal=partial(self._act_on, embedded=embedded),
            on_pauses=self._wake_fetchers,
        )
        reader.tick()  # before the first claim
        slow_runs = SlowRuns(config, redis, self.work_state, self._runs)
        self.watchdog = Watchdog(
            config, redis, self._fetchers, None if embedded else lifecycle.give_up, slow_runs.sample
        )
        self.scheduler = Scheduler(config, redis, Client(config, redis))
        self.services: list[Service] = [
            Liveness(config, self.ownership, [fetcher.audit for fetcher in self._fetchers.values()], parent),
            Sweeper(config, redis, self.ownership),
            self.watchdog,
            self.heartbeat,
            self.scheduler,
            self.failures,
            time_limits,
            rescue,
            reader,
            slots,
            Sampler(config, redis),
            *self._alerts(redis),
            *([self._leader()] if config.events.listened("leader") else []),
            *([Spooling.of(config).service()] if config.client.spool else []),
            *(factory(config) for factory in config.services),
            *self._discovery(redis),
        ]

    def _add_capsules(self, shared: WorkerParts, isolation: Isolation, pools: Pools) -> None:
        for capsule in self._config.capsules.values():
            context = FetcherContext(
                self._config,
                capsule,
                pools.capsules[capsule.name],
                self.ownership,
                shared.reporter.settled,
                isolation.claims_allowed,
                takes_jobs,
                controls=self._controls,
                count_claimed=self.work_state.runs.claimed,
            )
            fetcher = self._fetchers[capsule.name] = make_fetcher(context)
            isolation.join(fetcher)
            self.managers.append(Manager(shared, context, fetcher))

    def _act_on(self, signal: str, *, embedded: bool) -> None:
        if signal.startswith(CANCEL):
            Cancellation(signal.removeprefix(CANCEL), self._find_run).start()
        elif not embedded:
            self._lifecycle.on_signal(signal)

    def _find_run(self, jid: str) -> Reach | None:
        return next((reach for unit, reach in self._runs() if jid_of(unit) == jid), None)

    def _runs(self) -> Iterator[tuple[UnitOfWork, Reach]]:
        for manager in self.managers:
            yield from manager.runs()

    def _wake_fetchers(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.wake()

    def _alerts(self, redis: Redis) -> list[Service]:
        if not self._config.alerts.url:
            return []
        # Its import takes time and memory.
        from offsider.worker.alerts import Alerts

        return [Alerts(self._config, redis)]

    def _leader(self) -> Leader:
        config = self._config
        elected = partial(config.events.emit, "leader")
        # One leader for the workers of all servers.
        server = Installation.of(config, MAIN)
        return Leader(
            server.redis, lambda: self.ownership.identity, server.leadership, elected, on_error=config.handle_error
        )

    def _discovery(self, redis: Redis) -> list[Service]:
        everything = [capsule for capsule in self._config.capsules.values() if capsule.all_queues]
        if not everything:
            return []
        wakes = {name: fetcher.wake for name, fetcher in self._fetchers.items()}
        discovery = Discovery(self._config, redis, self.ownership, everything, wakes)
        discovery.tick()
        return [discovery]

    def _complete(self, report: Report) -> Report:
        # The first report is the registration of the owner, when all parts exist.
        stuck, max_strikes = self.watchdog.stuck(), self._config.worker.max_strikes
        return replace(report, state=self._lifecycle.state, stuck=stuck, max_strikes=max_strikes)

    def tell_parent(self) -> None:
        """Report a changed state to the parent, if there is one."""
        if self.parent is not None:
            self.parent.repeat()

    def ways_to_wait(self) -> dict[str, str]:
        """Return how each capsule waits for jobs. The capsule's threads reuse the answer of the server."""
        ways: dict[str, str] = {}
        for name, fetcher in self._fetchers.items():
            with suppress(RedisFailure):  # the first fetch reports it
                ways[name] = fetcher.described_wait()
        return {name: way for name, way in ways.items() if way}

    def outside_of_threads(self) -> list[tuple[str, bytes, Reach]]:
        """Return the running async and isolated jobs, each with its thread id as in the busy table and its payload."""
        reaches = dict(self._runs())
        return [
            (tid, work.unit.raw, reach)
            for tid, work in self.work_state.running().items()
            if (reach := reaches.get(work.unit)) is not None and not isinstance(reach, Injection)
        ]
