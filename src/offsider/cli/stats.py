"""``offsider stats``: counters, processes and queues at a glance, like ``sidekiqmon``.

1. Read the data of the chosen view.
2. Print it as text, or as one JSON object.
3. With ``--watch``, repeat; during an outage of the server print the error and try again.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from offsider import __version__
from offsider.cli.command import JSON, ONE_SERVER, SETTINGS, ConnectionOptions, connected
from offsider.cli.queues import queue_data, queue_table, served_queues
from offsider.cli.text import ago, aligned, duration, grouped, megabytes, plain, say
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.wording import counted
from offsider.inspector import ProcessSet, ServerInfo, Stats
from offsider.inspector.server_info import memory_by_family

if TYPE_CHECKING:
    from offsider.inspector import Process, QueueSummary

#: Longest scan of `--memory`.
SCAN_SECONDS = 10.0
VIEWS = ("all", "version", "overview", "processes", "queues")


@click.command(context_settings=SETTINGS)
@click.argument("view", type=click.Choice(VIEWS), default="all")
@connected(ONE_SERVER)
@click.option("--memory", is_flag=True, help="Show the memory of the server by family of keys instead, estimated.")
@JSON
@click.option("--watch", metavar="SECONDS", type=click.FloatRange(min=0.1), help="Refresh at this interval.")
def stats(connection: ConnectionOptions, view: str, *, memory: bool, as_json: bool, watch: float | None) -> None:
    """Show counters, processes and queues.

    VIEW is one of all (the default), version, overview, processes and queues.
    """
    here = connection.installation()
    view = "memory" if memory else view
    if watch is None:
        _show(rendered(view, here, as_json=as_json))
    else:
        keep_showing(lambda: rendered(view, here, as_json=as_json), watch)


def _show(text: str) -> None:
    say(*text.split("\n"))


def keep_showing(render: Callable[[], str], pause_seconds: float) -> None:
    """Print the result of ``render`` repeatedly until Ctrl-C; during an outage of the server, print the error."""
    never = threading.Event()
    try:
        while True:
            try:
                text = render()
            except RedisFailure as error:
                text = f"{plain(str(error))}\n(retrying every {duration(pause_seconds)})"
            if sys.stdout.isatty():
                click.clear()
            _show(text)
            never.wait(pause_seconds)
    except KeyboardInterrupt:
        return


def rendered(view: str, here: Installation, *, as_json: bool) -> str:
    """Return a view as text. Raises RedisFailure."""
    wanted = VIEWS[1:] if view == "all" else (view,)
    parts = {name: PARTS[name](here) for name in wanted}
    if as_json:
        by_view = {name: data for name, (data, _) in parts.items()}
        return json.dumps(by_view if view == "all" else by_view[view], indent=2)
    return "\n\n".join(text for _, text in parts.values())


# --------------------------------------------------------------------- each part as data and as text


def _version(here: Installation) -> tuple[Mapping[str, Any], str]:
    server = ServerInfo.read(here)
    data = {"offsider": __version__, "store": server.store, "version": server.version, "url": server.url}
    return data, f"offsider {__version__}, {plain(f'{server.store} {server.version} at {server.url}')}"


def _overview(here: Installation) -> tuple[Mapping[str, Any], str]:
    seen = Stats.read(here)
    names = ("processed", "failed", "busy", "enqueued", "scheduled", "retries", "dead", "held_back", "processes")
    data: dict[str, Any] = {name: getattr(seen, name) for name in names}
    for name in ("default_queue_latency_seconds", "processed_per_second", "failed_per_second"):
        data[name] = getattr(seen, name)
    numbers = {name: grouped(data[name]) for name in names}
    width = max(map(len, numbers.values()))
    lines = [f"  {name.capitalize().replace('_', ' '):<9}  {number:>{width}}" for name, number in numbers.items()]
    return data, "\n".join(["Overview", *lines])


def _processes(here: Installation) -> tuple[list[Mapping[str, Any]], str]:
    listed = list(ProcessSet(here))
    threads, busy = (sum(numbers) for numbers in ([p.concurrency for p in listed], [p.busy for p in listed]))
    summary = f"{counted(len(listed), 'worker')}, {counted(threads, 'thread')}, {busy} busy"
    lines = [line for process in listed for line in _process_lines(process, here.config.clock.now())]
    return [_process_data(process) for process in listed], "\n".join([f"Processes: {summary}", *lines])


def _process_data(process: Process) -> Mapping[str, Any]:
    return {
        "identity": process.identity,
        "hostname": process.hostname,
        "pid": process.pid,
        "tag": process.tag,
        "shard": process.shard,
        "labels": list(process.labels),
        "started_at": process.started_at,
        "concurrency": process.concurrency,
        "busy": process.busy,
        "quiet": process.is_quiet,
        "queues": list(process.queues),
        "rss_kilobytes": process.rss_kilobytes,
        "version": process.version,
        "app_version": process.app_version,
    }


def _process_lines(process: Process, now: float) -> list[str]:
    marks = [f"[{process.tag}]"] if process.tag else []
    marks += [*process.labels, *(["quiet"] if process.is_quiet else [])]
    facts = {
        "Shard": process.shard,
        "Release": process.app_version,
        "Started": ago(process.started_at or None, now),
        "Threads": f"{process.concurrency} ({process.busy} busy)",
        "Memory": megabytes(process.rss_kilobytes),
        "Queues": ", ".join(process.queues),
    }
    head = " ".join([process.identity, *marks])
    return [f"  {plain(head)}", *(f"    {name}: {plain(fact)}" for name, fact in facts.items() if fact)]


def _queues(here: Installation) -> tuple[list[Mapping[str, Any]], str]:
    summaries: tuple[QueueSummary, ...] = Stats.read(here).queue_summaries
    served = served_queues(here)
    return queue_data(summaries, served), "\n".join(["Queues", queue_table(summaries, served)])


def _memory(here: Installation) -> tuple[Mapping[str, Any], str]:
    found, complete = memory_by_family(here, SCAN_SECONDS)
    sizes = [f"{one.estimated_bytes / 1e6:,.1f} MB" if one.measured else "unknown" for one in found]
    rows = [(one.name, grouped(one.count), size) for one, size in zip(found, sizes, strict=True)]
    lines = aligned([("KEYS", "COUNT", "MEMORY"), *rows], numbers=(1, 2))
    if not complete:
        lines.append(f"The scan stopped after {SCAN_SECONDS:g} s: there are more keys.")
    families = {one.name: {"keys": one.count, "bytes": one.estimated_bytes if one.measured else None} for one in found}
    return {"complete": complete, "families": families}, "\n".join(lines)


PARTS: Mapping[str, Callable[[Installation], tuple[Any, str]]] = {
    "version": _version,
    "overview": _overview,
    "processes": _processes,
    "queues": _queues,
    "memory": _memory,
}
