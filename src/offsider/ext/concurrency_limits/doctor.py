"""Metrics and the ``offsider doctor`` check of concurrency limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.wording import counted, listed, shell_words
from offsider.ext.concurrency_limits.limits import Limits
from offsider.ext.concurrency_limits.slots import LEASE
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.prometheus import Family
from offsider.storage.leases import is_held

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits.limits import Limit


def families(here: Installation) -> list[Family]:
    """Return limit, slots in use and held jobs of each class. A paused class has the limit 0."""
    limits = list(Limits(here))
    most = {limit.name: limit.limit for limit in limits if limit.limit is not None}
    return [
        Family.by("class", f"offsider_concurrency_limit{what}", "gauge", text, values)
        for what, text, values in (
            ("", "Maximum number of concurrent runs of a class.", most),
            ("_in_use", "Slots of a class in use.", {limit.name: limit.in_use for limit in limits}),
            ("_held_jobs", "Jobs waiting for a slot.", {limit.name: limit.held for limit in limits}),
        )
    ]


def check_limits(here: Installation) -> Iterator[Finding]:
    """Report held jobs that are not resumed."""
    limits = list(Limits(here))
    held = [limit for limit in limits if limit.held]
    paused = [limit.name for limit in held if limit.paused]
    found = [*_unwatched(here, held), *([_paused(paused)] if paused else [])]
    yield from found
    if not found:
        count = sum(limit.held for limit in held)
        yield ok("limits", f"{counted(len(limits), 'concurrency limit')}, {counted(count, 'held job')}")


def _unwatched(here: Installation, held: list[Limit]) -> Iterator[Finding]:
    if held and not is_held(here.redis, LEASE):
        count, names = sum(limit.held for limit in held), listed(sorted(limit.name for limit in held))
        yield warn(
            "limits",
            f"{counted(count, 'held job')} of {names}, but no worker resumes held jobs",
            why="held jobs wait until a worker with the extension gives them a slot",
            fix="run a worker of this server with config.use(ConcurrencyLimits())",
        )
        return
    # Workers free slots of dead processes and resume jobs within a second; jobs still held after that are stuck.
    stuck = [limit.name for limit in held if not (limit.paused or limit.in_use or limit.rate)]
    if stuck:
        yield warn(
            "limits",
            f"jobs of {listed(sorted(stuck))} are held although no slot is in use",
            why="they should have been resumed within a second, unless their queue is paused",
            fix="run offsider queues: is their queue paused? do workers of these classes use the extension?",
        )


def _paused(names: list[str]) -> Finding:
    return warn(
        "limits",
        f"jobs of {listed(sorted(names))} are held because the class is paused",
        why="no job of a paused class runs until you resume the class",
        fix=f"offsider limits resume {shell_words(names[0])}",
    )
