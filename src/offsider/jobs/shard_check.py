"""Checks shards against declared jobs and routing rules: unserved queues, and shards without work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsider.config.queue_spec import EVERY
from offsider.config.settings import ShardSection
from offsider.config.shards import Destination, Routes, unserved
from offsider.core.wording import listed


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


def _plan(name: str, shard: ShardSection, queues: Sequence[str], found: Sequence[Destination]) -> ShardPlan:
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


def wrong_with(plans: Sequence[ShardPlan], found: Sequence[Destination], beside: Collection[str] = ()) -> Iterator[str]:
    """Return a sentence for each error that leaves jobs waiting or workers without work.

    Args:
        plans: the plans of all shards.
        found: the destinations of the declared jobs.
        beside: see `served_by`.
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
    for each in unserved(found, served_by(plans, beside)):
        yield f"no shard serves {each}, where {listed(sorted(each.chosen))} would wait"


def _unused(plan: ShardPlan, found: Sequence[Destination]) -> list[str]:
    """Return the queues of the shard to which no declared job goes, on its server."""
    used = {each.queue for each in found if each.server == plan.section.server}
    return [queue for queue in plan.queues if queue != EVERY and queue not in used]


def worth_knowing(plans: Sequence[ShardPlan], found: Sequence[Destination]) -> Iterator[str]:
    """Return a sentence for each note that may be intended: queues of two shards, and queues without declared jobs."""
    serving: dict[tuple[str, str], list[str]] = {}
    for plan in plans:
        for queue in plan.queues:
            serving.setdefault((plan.section.server, queue), []).append(plan.name)
    for (server, queue), names in sorted(serving.items()):
        if len(names) > 1:
            yield f"{Destination(server, queue)} is served by {len(names)} shards: {listed(sorted(names), len(names))}"
    anywhere = {each.queue for each in found}
    for plan in plans:
        unused = [queue for queue in _unused(plan, found) if queue not in anywhere]
        if unused:
            yield f"no declared job goes to {listed(sorted(unused))}, which the shard {plan.name} serves"
