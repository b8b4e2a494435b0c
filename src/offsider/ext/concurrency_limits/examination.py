"""What monitoring is told of concurrency limits: metrics, and what ``offsider doctor`` finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsider.core.wording import counted, listed
from offsider.ext.concurrency_limits.limits import Limits
from offsider.ext.concurrency_limits.slots import TURN
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.inspector.family import Family, Sample
from offsider.storage.turns import is_held

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits.limits import Limit
    from offsider.wiring.config import Config


def families(config: Config) -> list[Family]:
    """Of each class: its limit, the slots in use and the parked jobs. A paused class has the limit 0."""
    limits = list(Limits(config))

    def gauge(what: str, text: str, values: dict[str, float]) -> Family:
        samples = tuple(Sample(value, {"class": name}) for name, value in values.items())
        return Family(f"offsider_concurrency_limit{what}", "gauge", text, samples)

    return [
        gauge(
            "",
            "The most runs of a class at one time.",
            {limit.name: limit.limit for limit in limits if limit.limit is not None},
        ),
        gauge("_in_use", "Slots of a class that are taken.", {limit.name: limit.in_use for limit in limits}),
        gauge("_parked_jobs", "Jobs that wait for a slot.", {limit.name: limit.parked for limit in limits}),
    ]


def check_limits(config: Config) -> Iterator[Finding]:
    """Do parked jobs go on?"""
    limits = list(Limits(config))
    parked = [limit for limit in limits if limit.parked]
    paused = [limit.name for limit in parked if limit.paused]
    found = [*_unwatched(config, parked), *([_paused(paused)] if paused else [])]
    yield from found
    if not found:
        count = counted(sum(limit.parked for limit in parked), "job") if parked else "no job is"
        yield ok("limits", f"{counted(len(limits), 'concurrency limit')}, and {count} parked")


def _unwatched(config: Config, parked: list[Limit]) -> Iterator[Finding]:
    if parked and not is_held(config.shared_redis(), TURN):
        count, names = sum(limit.parked for limit in parked), listed(limit.name for limit in parked)
        yield warn(
            "limits",
            f"{counted(count, 'job')} of {names} parked, and no worker looks after them",
            why="they wait for a slot, and nobody gives them one",
            way_out="run a worker of this server with config.use(ConcurrencyLimits())",
        )
        return
    # Workers free the slots of the dead, and resume jobs, within a second: what is left is stuck.
    stuck = [limit.name for limit in parked if not limit.paused and not limit.in_use]
    if stuck:
        yield warn(
            "limits",
            f"jobs of {listed(stuck)} are parked though no slot is in use",
            why="they should have gone on within a second, unless their queue is paused",
            way_out="is their queue paused (offsider queues)? do the workers of this class use the extension?",
        )


def _paused(names: list[str]) -> Finding:
    return warn(
        "limits",
        f"jobs of {listed(names)} are parked because the class is paused",
        why="nothing of it runs until somebody has it go on",
        way_out=f"offsider limits resume {names[0]}",
    )
