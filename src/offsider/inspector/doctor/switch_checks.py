"""Check for forgotten kill switches, and for switches that differ between servers."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.wording import counted, listed
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.inspector.switches import Switches, SwitchInForce

_DAY = 86_400.0
#: A switch without an expiry that is this old was probably forgotten.
OLD_SECONDS = 3 * _DAY


def check_switches(facts: Facts) -> Iterator[Finding]:
    """Find kill switches that are old, or not the same on all servers."""
    found = Switches(facts.here).look().switches
    old = [one for one in found if one.until is None and facts.now - one.since >= OLD_SECONDS]
    partial = [one for one in found if one.missing_on or one.differs_on]
    if old:
        yield warn(
            "old switches",
            f"kill switches are set for days: {listed([_shown(one, facts.now) for one in old])}",
            why="jobs of these classes are dropped or deferred and never run; the switch may have been forgotten",
            fix=f"offsider switches clear {old[0].name}; or remove the code that pushes these jobs",
        )
    if partial:
        yield warn(
            "partial switches",
            f"not every server has the kill switch of {listed([_where(one) for one in partial])}",
            why="jobs of the same class are treated differently on some servers",
            fix="set the switch again, or clear it: offsider switches",
        )
    if found and not old and not partial:
        yield ok("switches", f"jobs of these classes are dropped or deferred: {listed([one.name for one in found])}")


def _where(switch: SwitchInForce) -> str:
    parts = (("not on", switch.missing_on), ("different on", switch.differs_on))
    return f"{switch.name} ({'; '.join(f'{how} {listed(servers)}' for how, servers in parts if servers)})"


def _shown(switch: SwitchInForce, now: float) -> str:
    return f"{switch.name} (for {counted(int((now - switch.since) // _DAY), 'day')})"


SWITCH_CHECKS = (check_switches,)
