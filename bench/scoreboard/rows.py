"""Every row, in its order."""

from __future__ import annotations

from bench.scoreboard import (
    clocks,
    clusters,
    crashes,
    failover,
    fleet,
    forks,
    fuzz,
    gates,
    hostile_numbers,
    injections,
    kills,
    locks_and_limits,
    memory_full,
    network,
    orphans,
    payloads,
    poison,
    replies,
    restarts,
    sizes,
    slow,
    slow_disk,
    soak,
    stops,
    upgrades,
)
from bench.scoreboard.row import Row

_MODULES = (
    kills,
    restarts,
    failover,
    network,
    replies,
    memory_full,
    poison,
    clocks,
    payloads,
    crashes,
    sizes,
    slow,
    slow_disk,
    stops,
    upgrades,
    forks,
    orphans,
    fuzz,
    injections,
    gates,
    hostile_numbers,
    soak,
    locks_and_limits,
    fleet,
    clusters,
)
_FOUND = [item for module in _MODULES for item in vars(module).values() if isinstance(item, Row)]

ROWS: dict[str, Row] = {item.name: item for item in sorted(_FOUND, key=lambda item: int(item.name[1:]))}
