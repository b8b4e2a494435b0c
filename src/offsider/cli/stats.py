"""``offsider stats``: counters, processes and queues at a glance, like ``sidekiqmon``; or the memory of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from offsider import __version__
from offsider.cli.command import CONNECTION, JSON, ConnectionOptions, command, output, server
from offsider.cli.show import table_of
from offsider.cli.text import aligned
from offsider.config.installation import Installation
from offsider.inspector import ServerInfo, Stats
from offsider.inspector.server_info import memory_by_family

#: Longest scan of `--memory`.
SCAN_SECONDS = 10.0
COUNTS = ("processed", "failed", "busy", "enqueued", "scheduled", "retries", "dead", "held_back", "processes")
RATES = ("default_queue_latency_seconds", "processed_per_second", "failed_per_second")


@command(
    *CONNECTION,
    server(),
    click.option("--memory", is_flag=True, help="Show the memory of the server by family of keys instead, estimated."),
    JSON,
)
def stats(connection: ConnectionOptions, *, memory: bool, as_json: bool) -> None:
    """Show counters, processes and queues.

    The JSON has the counters; `offsider processes --json` and `offsider queues --json` have the tables.
    """
    start = connection.installation()
    if memory:
        data, lines = _memory(start)
    else:
        data = counters(start)
        lines = () if as_json else _overview(start, data)
    output(data, lines, as_json=as_json)


def counters(server: Installation) -> dict[str, Any]:
    """Return the versions, the counters and the rates of a server. Raises RedisFailure."""
    found, seen = ServerInfo.read(server), Stats.read(server)
    versions = {"offsider": __version__, "store": found.store, "version": found.version, "url": found.url}
    return versions | {name: getattr(seen, name) for name in (*COUNTS, *RATES)}


def _overview(server: Installation, data: Mapping[str, Any]) -> Sequence[str]:
    names = [name.capitalize().replace("_", " ") for name in COUNTS]
    numbers = aligned([(f"  {name}", f"{data[count]:,}") for name, count in zip(names, COUNTS, strict=True)], (1,))
    tables = [["", *table_of(screen, server).split("\n")] for screen in ("processes", "queues")]
    first = f"offsider {data['offsider']}, {data['store']} {data['version']} at {data['url']}"
    return [first, "", "Overview", *numbers, *tables[0], *tables[1]]


def _memory(server: Installation) -> tuple[Mapping[str, Any], Sequence[str]]:
    found, complete = memory_by_family(server, SCAN_SECONDS)
    sizes = [f"{one.estimated_bytes / 1e6:,.1f} MB" if one.measured else "unknown" for one in found]
    rows = [(one.name, f"{one.count:,}", size) for one, size in zip(found, sizes, strict=True)]
    lines = aligned([("KEYS", "COUNT", "MEMORY"), *rows], numbers=(1, 2))
    if not complete:
        lines.append(f"The scan stopped after {SCAN_SECONDS:g} s: there are more keys.")
    families = {one.name: {"keys": one.count, "bytes": one.estimated_bytes if one.measured else None} for one in found}
    return {"complete": complete, "families": families}, lines
