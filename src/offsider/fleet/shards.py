"""Shards: what they serve according to the configuration, and their state: server, processes, and waiting jobs.

The queues of a shard are those in its configuration. For a shard with ``select`` they are the queues of the selected
jobs, as far as these are declared here, and the queues that its workers report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.queue_spec import EVERY
from offsider.config.settings import ShardSection
from offsider.config.shards import RoutedQueue, Routes, routes_of
from offsider.core.errors import RedisFailure
from offsider.core.wording import listed
from offsider.inspector.all_servers import query_all
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.stats import QueueSummary, Stats


@dataclass(frozen=True, slots=True)
class Shard:
    """The current state of a shard.

    Attributes:
        name: name of the shard; empty for workers without a shard, and for unserved queues with jobs that belong to
            no shard.
        server: name of its server.
        url: URL of that server without the password.
        queues: names of its queues; ``*`` means all queues of its server.
        processes: number of processes that serve it.
        quiet: number of quiet processes among them.
        concurrency: total number of threads.
        busy: number of running jobs.
        waiting: number of jobs in its queues.
        latency_seconds: highest latency of its queues; 0 if no job waits.
        error: the error if the server does not respond; else empty.
    """

    name: str
    server: str
    url: str
    queues: Sequence[str]
    processes: int = 0
    quiet: int = 0
    concurrency: int = 0
    busy: int = 0
    waiting: int = 0
    latency_seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ServerLook:
    """The queues and processes of one server."""

    queues: Sequence[QueueSummary]
    processes: Sequence[Process]

    @classmethod
    def read(cls, server: Installation) -> ServerLook:
        """Read the current state. Raises RedisFailure."""
        return cls(Stats.read(server).queue_summaries, list(ProcessSet(server)))

    @property
    def unserved(self) -> list[QueueSummary]:
        """The queues with jobs that no process serves."""
        served = {queue for process in self.processes for queue in process.serving}
        return [] if EVERY in served else [each for each in self.queues if each.size and each.name not in served]


#: The state of a server, or the error.
Seen: TypeAlias = ServerLook | str


class Shards:
    """All shards. Iterating reads the current state and yields `Shard`.

    The shards of the configuration come first. Then, by server: shards that only workers report, workers without a
    shard, and unserved queues with jobs that belong to no shard.

    Args:
        config: the configuration; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._server = Installation.of(config)

    def __iter__(self) -> Iterator[Shard]:
        answers = query_all(self._server, ServerLook.read).items()
        seen = {server: str(state) if isinstance(state, RedisFailure) else state for server, state in answers}
        yield from shards_of(self._server, seen)

    def find(self, name: str) -> Shard | None:
        """Return the shard with this name; None if it does not exist."""
        return next((shard for shard in self if shard.name == name), None) if name else None


def shards_of(here: Installation, seen: Mapping[str, Seen]) -> Iterator[Shard]:
    """Yield the shards from the states of the servers, by name, that were read before."""
    routes = routes_of(here.config)
    for name, section in here.config.shards.items():
        queues = routes.queues_of(section)
        yield _shard(here, name, section.server, queues, seen[section.server])
    for server, state in seen.items():
        if isinstance(state, ServerLook):
            yield from _others(here, server, state)


def _others(here: Installation, server: str, state: ServerLook) -> Iterator[Shard]:
    """Yield shards that are not configured: after a rename, workers serve a shard under its old name for a while."""
    configured = {name: section for name, section in here.config.shards.items() if section.server == server}
    routes = routes_of(here.config)
    of_shards = {queue for section in configured.values() for queue in routes.queues_of(section)}
    for name in sorted({process.shard for process in state.processes} - configured.keys()):
        yield _shard(here, name, server, (), state)
    left = [] if EVERY in of_shards else [queue for queue in state.unserved if queue.name not in of_shards]
    if left:
        yield _shard(here, "", server, [queue.name for queue in left], ServerLook(left, ()))


def _shard(here: Installation, name: str, server: str, queues: Sequence[str], state: Seen) -> Shard:
    url = here.config.servers[server].redacted_url
    if isinstance(state, str):
        return Shard(name, server, url, queues, error=state)
    processes = [process for process in state.processes if process.shard == name]
    # Workers report queues of jobs that are not declared here, and queues that the configuration does not have.
    reported = (queue for process in processes for queue in process.queues)
    queues = tuple(dict.fromkeys(queues if EVERY in queues else (*queues, *reported)))
    served = [queue for queue in state.queues if queue.name in queues or EVERY in queues]
    return Shard(
        name=name,
        server=server,
        url=url,
        queues=queues,
        processes=len(processes),
        quiet=sum(process.is_quiet for process in processes),
        concurrency=sum(process.concurrency for process in processes),
        busy=sum(process.busy for process in processes),
        waiting=sum(queue.size for queue in served),
        latency_seconds=max((queue.latency_seconds for queue in served if queue.size), default=0.0),
    )


# ------------------------------------------------------------------------------ by the configuration


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The queues and jobs of a shard.

    Attributes:
        name: name of the shard.
        section: its settings.
        queues: names of its queues; empty if its query selects no job of its server.
        jobs: queue -> names of its declared jobs, for each queue, and for ``*`` those of all other queues.
    """

    name: str
    section: ShardSection
    queues: Sequence[str]
    jobs: Mapping[str, Sequence[str]]


def plan_shards(shards: Mapping[str, ShardSection], routes: Routes) -> list[ShardPlan]:
    """Return the plan of each shard, in their order."""
    found = routes.destinations()
    return [_plan(name, shard, routes.queues_of(shard), found) for name, shard in shards.items()]


def _plan(name: str, shard: ShardSection, queues: Sequence[str], found: Sequence[RoutedQueue]) -> ShardPlan:
    here = {each.queue: each.chosen for each in found if each.server == shard.server}
    jobs = {queue: sorted(here.get(queue, ())) for queue in queues}
    if EVERY in queues:
        jobs[EVERY] = sorted(job for queue, names in here.items() if queue not in queues for job in names)
    return ShardPlan(name, shard, queues, jobs)


def served_by(plans: Sequence[ShardPlan], beside: Collection[str] = ()) -> dict[str, set[str]]:
    """Return the queues that shards serve, by server.

    Args:
        plans: the plans of all shards.
        beside: queues that workers of every shard serve: those of additional capsules.
    """
    served: dict[str, set[str]] = {}
    for plan in plans:
        served.setdefault(plan.section.server, set(beside)).update(plan.queues)
    return served


def wrong_with(plans: Sequence[ShardPlan], found: Sequence[RoutedQueue]) -> Iterator[str]:
    """Return a sentence for each shard without work, or on another server than its jobs.

    Args:
        plans: the plans of all shards.
        found: the destinations of the declared jobs.
    """
    for plan in plans:
        if not plan.queues:
            yield (
                f"the shard {plan.name} serves nothing: no job that {plan.section.select!r} selects goes to its "
                f"server, {plan.section.server}"
            )
        for queue in _unused(plan, found):
            for other in (each for each in found if each.queue == queue):
                yield (
                    f"the shard {plan.name} serves the server {plan.section.server}, but the jobs of its queue "
                    f"{queue} go to the server {other.server}: {listed(sorted(other.chosen))}"
                )


def _unused(plan: ShardPlan, found: Sequence[RoutedQueue]) -> list[str]:
    """Return the queues of the shard to which no declared job goes, on its server."""
    used = {each.queue for each in found if each.server == plan.section.server}
    return [queue for queue in plan.queues if queue != EVERY and queue not in used]


def worth_knowing(plans: Sequence[ShardPlan], found: Sequence[RoutedQueue]) -> Iterator[str]:
    """Return a sentence for each note that may be intended: queues of two shards, and queues without declared jobs."""
    serving: dict[tuple[str, str], list[str]] = {}
    for plan in plans:
        for queue in plan.queues:
            serving.setdefault((plan.section.server, queue), []).append(plan.name)
    for (server, queue), names in sorted(serving.items()):
        if len(names) > 1:
            yield f"{RoutedQueue(server, queue)} is served by {len(names)} shards: {listed(sorted(names), len(names))}"
    anywhere = {each.queue for each in found}
    for plan in plans:
        unused = [queue for queue in _unused(plan, found) if queue not in anywhere]
        if unused:
            yield f"no declared job goes to {listed(sorted(unused))}, which the shard {plan.name} serves"
