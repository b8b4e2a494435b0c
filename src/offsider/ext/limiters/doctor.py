"""Metrics and the ``offsider doctor`` check of limiters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsider.core.wording import counted
from offsider.ext.limiters.limiter_set import LimiterSet, LimiterState
from offsider.inspector.finding import Finding, ok, warn
from offsider.prometheus import Family, Sample

if TYPE_CHECKING:
    from offsider.config.installation import Installation

#: More limiters than this have no metrics: each is a time series.
MAX_MEASURED = 100
MANY = 100_000


def families(here: Installation) -> list[Family]:
    """Return the number of limiters, and up to `MAX_MEASURED` limiters with use, limit and counters."""
    found = LimiterSet(here, most=MAX_MEASURED)
    count = len(found)
    states = list(found) if count <= MAX_MEASURED else []
    return [
        Family.of("offsider_limiters", "gauge", "Number of limiters.", count),
        _family("limit", "gauge", "Configured limit of a limiter.", {state: state.limit for state in states}),
        _family("used", "gauge", "What counts toward the limit now.", {state: state.used for state in states}),
        _family("allowed_total", "counter", "Permitted blocks.", {state: state.allowed for state in states}),
        _family("overages_total", "counter", "Refused blocks.", {state: state.overages for state in states}),
        _family("wait_seconds_total", "counter", "Time waited.", {state: state.wait_seconds for state in states}),
        _family("reclaimed_total", "counter", "Reclaimed slots.", {state: state.reclaimed for state in states}),
    ]


def check_limiters(here: Installation) -> Iterator[Finding]:
    """Report growth without bound, and blocks that run longer than their lock timeout."""
    found = LimiterSet(here)
    count = len(found)
    late = [state for state in found if state.reclaimed]
    if count > MANY:
        yield warn(
            "limiters",
            f"{counted(count, 'limiter')} are stored",
            cause="each uses memory until it has been unused for its ttl, 90 days by default",
            action="use fewer names, or set ttl for limiters with a name for each customer",
        )
    if late:
        names = ", ".join(sorted(f"{state.kind} {state.name}" for state in late)[:5])
        yield warn(
            "limiters",
            f"slots of {names} were reclaimed {counted(sum(state.reclaimed for state in late), 'time')}",
            cause="a process died, or a block ran longer than lock_timeout and others ran beyond the limit",
            action="raise lock_timeout above the longest block, then run: offsider limiters reset KIND NAME",
        )
    if count <= MANY and not late:
        yield ok("limiters", counted(count, "limiter"))


def _family(what: str, kind: str, text: str, values: dict[LimiterState, float]) -> Family:
    samples = (Sample(value, {"kind": state.kind, "name": state.name}) for state, value in values.items())
    return Family(f"offsider_limiter_{what}", "counter" if kind == "counter" else "gauge", text, tuple(samples))
