"""What the checks of a server read: each part once, when the first check needs it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from offsider.config.installation import Installation
from offsider.core.controls import Control
from offsider.inspector.controls import Controls, GroupSeen
from offsider.inspector.events import Event, EventLog
from offsider.inspector.failures import ErrorGroup, ErrorGroups
from offsider.inspector.finding import Finding
from offsider.inspector.flow import Flow
from offsider.inspector.process import Process
from offsider.inspector.server_info import Refusals, ServerInfo
from offsider.inspector.stats import QueueSummary, ServerLook
from offsider.inspector.work import Work, WorkSet
from offsider.storage import control_table, owners, queues, run_counts
from offsider.storage.clocks import Comparison, compare
from offsider.storage.owners import Lists
from offsider.storage.redis import Redis
from offsider.storage.run_counts import MinuteCounts as MinuteCounts  # noqa: PLC0414  # `runs` returns it

#: Number of minutes whose runs are compared, including the current one.
MINUTES = 60
MINUTE_SECONDS = 60
#: Weight of a run by the urgency of its class.
URGENCY_WEIGHTS = {"high": 10.0, "low": 2.0, "throttled": 1.0}
MAX_EVENTS = 1_000


@dataclass(frozen=True)
class Look:
    """The state of a server while it is examined.

    Each property raises RedisFailure if the server is unreachable or refuses a command.

    Attributes:
        server: the server, with the configuration of the caller.
        known: the findings of the last examination by id, so that a step of an hour ago is still known.
        readings: number of readings of the server's clock; the fastest one is used.
    """

    server: Installation
    known: Mapping[str, Finding] = field(default_factory=dict[str, Finding])
    readings: int = 1

    @cached_property
    def clock(self) -> Comparison:
        """The server's clock beside that of this host."""
        return compare(self.redis, self.server.config.clock, times=self.readings)

    @property
    def redis(self) -> Redis:
        """The connection to the server."""
        return self.server.redis

    @property
    def now(self) -> float:
        """Epoch seconds by the server's clock."""
        return self.clock.now

    @property
    def redis_cli(self) -> str:
        """The program for a command with a key; with ``-c`` it follows the redirections of a Cluster."""
        return "redis-cli -c" if self.server.settings.is_cluster else "redis-cli"

    @cached_property
    def fleet(self) -> ServerLook:
        """Queues and registered processes, ours and Ruby's."""
        return ServerLook.read(self.server)

    @property
    def queues(self) -> Sequence[QueueSummary]:
        """Every queue."""
        return self.fleet.queues

    @property
    def processes(self) -> Sequence[Process]:
        """Every registered process."""
        return self.fleet.processes

    @cached_property
    def owners(self) -> Sequence[Lists]:
        """Owners of private lists, all ours."""
        return owners.registered(self.redis)

    @cached_property
    def waiting_since(self) -> Mapping[str, float]:
        """When the next job was enqueued, in epoch seconds, by queue; queues without a time are missing.

        Latencies by the clock of this host, which may be wrong, are of no use.
        """
        waiting = [queue.name for queue in self.queues if queue.size]
        since = queues.enqueued_at(self.redis, waiting) if waiting else []
        return {queue: at for queue, at in zip(waiting, since, strict=True) if at is not None}

    def waited_seconds(self, queue: str) -> float | None:
        """Return the latency of the next job of a queue; None if it is unknown."""
        since = self.waiting_since.get(queue)
        return None if since is None else max(0.0, self.now - since)

    @cached_property
    def info(self) -> ServerInfo:
        """What the server reports."""
        return ServerInfo.ask(self.redis, self.server.shared.get(Refusals, Refusals))

    @cached_property
    def controls(self) -> Mapping[str, Control]:
        """The controls in force, by subject."""
        return control_table.read(self.redis).on

    @cached_property
    def groups(self) -> Sequence[GroupSeen]:
        """Groups with limits, slots or held jobs."""
        return Controls(self.server).groups()

    @cached_property
    def works(self) -> Sequence[Work]:
        """The running jobs, longest first."""
        return list(iter(WorkSet(self.server)))

    @cached_property
    def events(self) -> Sequence[Event]:
        """The events of the last hour, newest first."""
        return EventLog(self.server).read(since=self.now - MINUTES * MINUTE_SECONDS, count=MAX_EVENTS)

    @cached_property
    def errors(self) -> Sequence[ErrorGroup]:
        """The error groups of the last hour, latest first."""
        since = self.now - MINUTES * MINUTE_SECONDS
        return [group for group in ErrorGroups(self.server).page(0, 500) if group.last_at >= since]

    @property
    def first_minute(self) -> float:
        """Start of the first minute of `runs`."""
        return _first_minute(self.now)

    def minute_at(self, number: int) -> float:
        """Start of a minute of `runs`."""
        return self.first_minute + number * MINUTE_SECONDS

    @cached_property
    def runs(self) -> Mapping[str, Sequence[MinuteCounts]]:
        """The runs of the last hour by class; one entry per release."""
        return runs_of_hour(self.server, self.now)

    @cached_property
    def release_starts(self) -> Mapping[str, float]:
        """Start of the minute in which each release ran first, if others ran within the last hour before it."""
        firsts: dict[str, int] = {}
        for counts in (each for releases in self.runs.values() for each in releases):
            firsts[counts.release] = min(counts.first, firsts.get(counts.release, MINUTES))
        earliest = min(firsts.values(), default=0)
        return {release: self.minute_at(first) for release, first in firsts.items() if release and first > earliest}

    @cached_property
    def urgencies(self) -> Mapping[str, str]:
        """The urgency of each class that ran recently."""
        return run_counts.urgencies(self.redis)

    def weight(self, name: str) -> float:
        """Return the weight of a run of a class in `Finding.harm`."""
        return URGENCY_WEIGHTS.get(self.urgencies.get(name, "low"), URGENCY_WEIGHTS["low"])

    @cached_property
    def flow(self) -> Flow:
        """Jobs that come into each queue and leave it, of the last five minutes."""
        return Flow.read(self.server)

    def waiting_harm(self, queue: str, jobs: int) -> float:
        """Return the harm of jobs that wait: as many start too late per minute as come or leave per minute.

        Without samples the waiting jobs have come evenly since the next one was enqueued.
        """
        flow = self.flow.queues.get(queue)
        minutes = (self.waited_seconds(queue) or 0.0) / MINUTE_SECONDS
        waited = jobs / max(1.0, minutes)
        rate = max(flow.in_per_second, flow.out_per_second) * MINUTE_SECONDS if flow else 0.0
        return URGENCY_WEIGHTS["low"] * (rate or waited)

    @cached_property
    def runs_per_minute(self) -> float:
        """Runs of all classes per minute in the last five minutes."""
        return math.fsum(sum(each.processed[-5:]) for releases in self.runs.values() for each in releases) / 5


def runs_of_hour(server: Installation, now: float) -> Mapping[str, Sequence[MinuteCounts]]:
    """Return the runs of the hour before a time in epoch seconds by class; one entry per release."""
    return run_counts.minutes_of_classes(server.redis, _first_minute(now), now)


def _first_minute(now: float) -> float:
    return now // MINUTE_SECONDS * MINUTE_SECONDS - (MINUTES - 1) * MINUTE_SECONDS
