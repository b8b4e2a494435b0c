"""Switches that somebody may have forgotten, or that not every server has."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.wording import counted
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.inspector.doctor.listing import listed
from offsider.inspector.switches import Switches, SwitchInForce

_DAY = 86_400.0
#: What is still off after so long was hardly meant for the moment.
OLD_SECONDS = 3 * _DAY


def check_switches(facts: Facts) -> Iterator[Finding]:
    """Are jobs of a class dropped or put off for days, or on some servers only?"""
    found = Switches(facts.config).look().switches
    old = [one for one in found if one.until is None and facts.vitals.now - one.since >= OLD_SECONDS]
    partial = [one for one in found if one.missing_on or one.differs_on]
    if old:
        yield warn(
            "old switches",
            f"jobs are dropped or put off for days: {listed([_shown(one, facts.vitals.now) for one in old])}",
            why="the switch may have been forgotten, and its jobs never run",
            way_out=f"offsider switches clear {old[0].name}; or remove what pushes these jobs",
        )
    if partial:
        yield warn(
            "partial switches",
            f"not every server has the switch of {listed([_where(one) for one in partial])}",
            why="something else becomes of the jobs of one class on some servers",
            way_out="set the switch once more, or clear it: offsider switches",
        )
    if found and not old and not partial:
        yield ok("switches", f"the jobs of these classes are dropped or put off: {listed([one.name for one in found])}")


def _where(switch: SwitchInForce) -> str:
    told = (("not on", switch.missing_on), ("another on", switch.differs_on))
    return f"{switch.name} ({'; '.join(f'{how} {listed(servers)}' for how, servers in told if servers)})"


def _shown(switch: SwitchInForce, now: float) -> str:
    return f"{switch.name} (for {counted(int((now - switch.since) // _DAY), 'day')})"


SWITCH_CHECKS = (check_switches,)
