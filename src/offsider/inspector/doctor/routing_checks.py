"""Do all programs route jobs by the same rules?"""

from __future__ import annotations

from collections.abc import Iterator

from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.inspector.doctor.listing import listed
from offsider.inspector.routing import RulesInUse, rules_in_use
from offsider.wiring.routing import UNROUTED


def check_routing(facts: Facts) -> Iterator[Finding]:
    """Do all programs route jobs by the same rules?"""
    in_use = rules_in_use(facts.config)
    if len(in_use) > 1:
        yield warn(
            "routing",
            f"jobs are routed by different rules: {'; '.join(map(_shown, in_use))}",
            why="the same job goes to one queue or another, depending on who pushes it",
            way_out="give all of them the same [routing] rules and start them anew; the warning is gone in 5 minutes",
        )
    elif in_use and in_use[0].rules != UNROUTED:
        yield ok("routing", f"all workers and clients route by the same rules ({in_use[0].rules})")


def _shown(in_use: RulesInUse) -> str:
    name = "no rules" if in_use.rules == UNROUTED else in_use.rules
    return f"{name} by {listed(in_use.users)}"


ROUTING_CHECKS = (check_routing,)
