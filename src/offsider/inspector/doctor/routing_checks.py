"""Check that all programs use the same routing rules."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.config.routing import UNROUTED
from offsider.core.wording import listed
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.inspector.routing import RulesInUse, rules_in_use


def check_routing(facts: Facts) -> Iterator[Finding]:
    """Find programs with different routing rules."""
    in_use = rules_in_use(facts.here)
    if len(in_use) > 1:
        yield warn(
            "routing",
            f"programs route jobs by different rules: {'; '.join(map(_shown, in_use))}",
            why="the queue of a job depends on the program that pushes it",
            fix="deploy the same [routing] rules to all of them and restart; the warning clears within 5 minutes",
        )
    elif in_use and in_use[0].rules != UNROUTED:
        yield ok("routing", f"all workers and clients use the same rules ({in_use[0].rules})")


def _shown(in_use: RulesInUse) -> str:
    name = "no rules" if in_use.rules == UNROUTED else in_use.rules
    return f"{name} by {listed(in_use.users)}"


ROUTING_CHECKS = (check_routing,)
