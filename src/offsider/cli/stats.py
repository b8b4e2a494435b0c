"""``offsider stats``: counters, processes and queues at a glance, as Sidekiq's own monitor command shows them.

1. Read everything that the chosen view needs.
2. Show it as text, or as one JSON object.
3. With ``--watch`` do so again and again; an outage of the server is a line, and it goes on.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from offsider import __version__
from offsider.cli.connection import SERVER, SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.cli.quantities import ago, duration, grouped, megabytes
from offsider.core.errors import OffsiderError, RedisFailure
from offsider.core.wording import counted

if TYPE_CHECKING:
    from offsider.inspector import Process, QueueSummary
    from offsider.wiring.config import Config

VIEWS = ("all", "version", "overview", "processes", "queues")


@click.command(context_settings=SETTINGS)
@click.argument("view", type=click.Choice(VIEWS), default="all")
@connection_options
@SERVER
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.option("--watch", metavar="SECONDS", type=click.FloatRange(min=0.1), help="Look again and again.")
def stats(
    view: str,
    config: str | None,
    environment: str | None,
    server: str | None,
    *,
    as_json: bool,
    watch: float | None,
) -> None:
    """Show counters, processes and queues.

    VIEW is one of all (the default), version, overview, processes and queues.
    """
    sys.exit(run(view, (config, environment, server), as_json=as_json, watch=watch))


def run(view: str, connection: tuple[str | None, str | None, str | None], *, as_json: bool, watch: float | None) -> int:
    """Show a view, once or until Ctrl-C; answers the exit code."""
    try:
        config = load(*connection)
        if watch is None:
            click.echo(rendered(view, config, as_json=as_json))
            return 0
    except OffsiderError as error:
        return give_up(str(error))
    keep_showing(lambda: rendered(view, config, as_json=as_json), watch)
    return 0


def keep_showing(render: Callable[[], str], pause_seconds: float) -> None:
    """Show what ``render`` answers until Ctrl-C; while the server is away, why."""
    never = threading.Event()
    try:
        while True:
            try:
                text = render()
            except RedisFailure as error:
                text = f"{error}\n(trying again each {duration(pause_seconds)})"
            if sys.stdout.isatty():
                click.clear()
            click.echo(text)
            never.wait(pause_seconds)
    except KeyboardInterrupt:
        return


def rendered(view: str, config: Config, *, as_json: bool) -> str:
    """A view as text. Raises RedisFailure."""
    wanted = VIEWS[1:] if view == "all" else (view,)
    parts = {name: PARTS[name](config) for name in wanted}
    if as_json:
        told = {name: data for name, (data, _) in parts.items()}
        return json.dumps(told if view == "all" else told[view], indent=2)
    return "\n\n".join(text for _, text in parts.values())


# --------------------------------------------------------------------- each part as data and as text


def _version(config: Config) -> tuple[Mapping[str, Any], str]:
    from offsider.inspector import ServerInfo

    server = ServerInfo.read(config)
    data = {"offsider": __version__, "store": server.store, "version": server.version, "url": server.url}
    return data, f"offsider {__version__}, {server.store} {server.version} at {server.url}"


def _overview(config: Config) -> tuple[Mapping[str, Any], str]:
    from offsider.inspector import Stats

    seen = Stats.read(config)
    names = ("processed", "failed", "busy", "enqueued", "scheduled", "retries", "dead", "held_back", "processes")
    data: dict[str, Any] = {name: getattr(seen, name) for name in names}
    data["default_queue_latency_seconds"] = seen.default_queue_latency_seconds
    numbers = {name: grouped(data[name]) for name in names}
    width = max(map(len, numbers.values()))
    lines = [f"  {name.capitalize().replace('_', ' '):<9}  {number:>{width}}" for name, number in numbers.items()]
    return data, "\n".join([_title("Overview"), *lines])


def _processes(config: Config) -> tuple[list[Mapping[str, Any]], str]:
    from offsider.inspector import ProcessSet

    listed = list(ProcessSet(config))
    threads, busy = (sum(numbers) for numbers in ([p.concurrency for p in listed], [p.busy for p in listed]))
    summary = f"{counted(len(listed), 'worker')}, {counted(threads, 'thread')}, {busy} busy"
    lines = [line for process in listed for line in _process_lines(process, config.clock.now())]
    return [_process_data(process) for process in listed], "\n".join([_title(f"Processes: {summary}"), *lines])


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


def _queues(config: Config) -> tuple[list[Mapping[str, Any]], str]:
    from offsider.cli.queues import queue_data, queue_table, served_queues
    from offsider.inspector import Stats

    summaries: tuple[QueueSummary, ...] = Stats.read(config).queue_summaries
    served = served_queues(config)
    return queue_data(summaries, served), "\n".join([_title("Queues"), queue_table(summaries, served)])


def _title(text: str) -> str:
    return click.style(text, bold=True)


PARTS: Mapping[str, Callable[[Config], tuple[Any, str]]] = {
    "version": _version,
    "overview": _overview,
    "processes": _processes,
    "queues": _queues,
}
