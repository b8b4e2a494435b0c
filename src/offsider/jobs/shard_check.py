"""Shards against the declared jobs and the rules: queues that nobody serves, and shards that do nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsider.core.wording import listed
from offsider.wiring.queue_spec import EVERY
from offsider.wiring.settings import ShardSection
from offsider.wiring.shards import Destination, Routes, unserved


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What a shard serves.

    Attributes:
        name: of the shard.
        section: its settings.
        queues: the names of its queues; none when its query chooses no job of its server.
        jobs: queue -> names of the declared jobs that go there, for each of the queues, and for ``*`` for all others.
    """

    name: str
    section: ShardSection
    queues: Sequence[str]
    jobs: Mapping[str, Sequence[str]]


def plan_shards(shards: Mapping[str, ShardSection], routes: Routes) -> list[ShardPlan]:
    """What each shard serves, in their order."""
    found = routes.destinations()
    return [_plan(name, shard, routes.queues_of(shard), found) for name, shard in shards.items()]


def _plan(name: str, shard: ShardSection, queues: Sequence[str], found: Sequence[Destination]) -> ShardPlan:
    here = {each.queue: each.chosen for each in found if each.server == shard.server}
    jobs = {queue: sorted(here.get(queue, ())) for queue in queues}
    if EVERY in queues:
        jobs[EVERY] = sorted(job for queue, names in here.items() if queue not in queues for job in names)
    return ShardPlan(name, shard, queues, jobs)


def served_by(plans: Sequence[ShardPlan], beside: Collection[str] = ()) -> dict[str, set[str]]:
    """Server -> the queues of its shards.

    Args:
        plans: of all shards.
        beside: queues that every worker serves, whatever its shard: those of further capsules.
    """
    served: dict[str, set[str]] = {}
    for plan in plans:
        served.setdefault(plan.section.server, set(beside)).update(plan.queues)
    return served


def wrong_with(plans: Sequence[ShardPlan], found: Sequence[Destination], beside: Collection[str] = ()) -> Iterator[str]:
    """One sentence for each thing for which jobs would wait, or workers do nothing.

    Args:
        plans: of all shards.
        found: where the declared jobs go.
        beside: as of `served_by`.
    """
    for plan in plans:
        if not plan.queues:
            yield (
                f"the shard {plan.name} serves nothing: no job that {plan.section.select!r} chooses goes to its "
                f"server, {plan.section.server}"
            )
        for queue in _unused(plan, found):
            for other in (each for each in found if each.queue == queue):
                yield (
                    f"the shard {plan.name} works for the server {plan.section.server}, and the jobs of its queue "
                    f"{queue} go to the server {other.server}: {listed(other.chosen)}"
                )
    for each in unserved(found, served_by(plans, beside)):
        yield f"no shard serves {each}, where {listed(each.chosen)} would wait"


def _unused(plan: ShardPlan, found: Sequence[Destination]) -> list[str]:
    """The queues to which no declared job goes, on the server of the shard."""
    used = {each.queue for each in found if each.server == plan.section.server}
    return [queue for queue in plan.queues if queue != EVERY and queue not in used]


def worth_knowing(plans: Sequence[ShardPlan], found: Sequence[Destination]) -> Iterator[str]:
    """One sentence for each thing that may be meant so: queues of two shards, and queues without a declared job."""
    serving: dict[tuple[str, str], list[str]] = {}
    for plan in plans:
        for queue in plan.queues:
            serving.setdefault((plan.section.server, queue), []).append(plan.name)
    for (server, queue), names in sorted(serving.items()):
        if len(names) > 1:
            yield f"{Destination(server, queue)} is served by {len(names)} shards: {listed(names, len(names))}"
    anywhere = {each.queue for each in found}
    for plan in plans:
        unused = [queue for queue in _unused(plan, found) if queue not in anywhere]
        if unused:
            yield f"no declared job goes to {listed(unused)}, which the shard {plan.name} serves"
