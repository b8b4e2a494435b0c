"""The screen of the fleet: the worst queues, the processes and their jobs, deaths, schedules, limits, servers, shards.

Each section has the first rows of its table, those in trouble first, and a link to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebDuration,
    WebFacts,
    WebLink,
    WebLinks,
    WebPage,
    WebSpark,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.wording import counted, listed
from offsider.ext.limiters.limiter_set import LimiterSet
from offsider.ext.limiters.web import limit_of, limiter_path
from offsider.ext.periodic.jobs import PeriodicJobs
from offsider.ext.periodic.web import table as periodic_table
from offsider.fleet import ShardLoad, ShardLoads
from offsider.inspector import Controls, Flow, GroupSeen, ServerInfo, ServerLoad, ServerLook, WorkSet
from offsider.inspector.events import EventLog
from offsider.screens import controls, counters, processes, queues

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.config.web_tab import Block, WebRequest

    _Loaded: TypeAlias = tuple[list[ShardLoad], dict[str, list[float | None]]]

PATH = "/fleet"
ROWS = 10
_HOUR_SECONDS = 3600.0
_LIMITERS_READ = 100
_LOAD_SECONDS = 5.0
#: From here on the server itself is what delays jobs.
_SLOW_SECONDS, _FULL = 0.05, 0.9
_QUEUES_SHOWN = 30
_SERVER_COLUMNS = [
    "Server",
    "Version",
    "CPU",
    "Commands/s",
    "Memory, MB",
    "Limit, MB",
    "Clients",
    "Round trip",
    "State",
]
_SHARD_COLUMNS = [
    "Shard",
    "Server",
    "Processes",
    "Desired",
    "Threads",
    "Busy",
    "Used, 6 h",
    "Used, 1 h",
    "Used, 10 min",
    "Waiting",
    "Wait",
    "Wait, of target",
    "Queues",
]


def show(request: WebRequest) -> WebPage:
    """Show everything that runs jobs, and what keeps it from running them."""
    server = request.installation
    blocks: list[Block] = [
        *_working(request),
        _deaths(request),
        *_periodic(request),
        *_limits(request),
        _servers(server),
        _shards(server),
        _others(server),
    ]
    return WebPage("Fleet", blocks)


def _working(request: WebRequest) -> list[Block]:
    look, works = ServerLook.read(request.installation), list(iter(WorkSet(request.installation)))
    worst = queues.worst_first(look)
    now = request.installation.config.clock.now()
    all_processes = sorted(look.processes, key=lambda each: processes.state(each, now).tone in ("", "good"))
    return [
        queues.table(request.installation, look, worst[:ROWS], more=_all(len(worst), "queue", queues.PATH)),
        processes.table(request, all_processes[:ROWS], more=_all(len(all_processes), "process", processes.PATH)),
        processes.running(request, works[:ROWS], more=_all(len(works), "running job", f"{processes.PATH}/running")),
    ]


def _all(count: int, noun: str, path: str) -> WebLink | None:
    return WebLink(f"All {counted(count, noun)}", path) if count else None


def _deaths(request: WebRequest) -> WebTable:
    now = request.installation.config.clock.now()
    died = EventLog(request.installation).read(since=now - _HOUR_SECONDS, kinds=("process-died",), count=ROWS)
    rows: list[list[Cell]] = [
        [event.subject, WebTime(event.at), event.fields.get("how", ""), int(event.fields.get("jobs", 0))]
        for event in died
    ]
    columns = ("Process", "Died", "How", "Jobs requeued")
    return WebTable("Deaths of the last hour", columns, rows, "No process died in the last hour.")


def _periodic(request: WebRequest) -> list[Block]:
    jobs = list(PeriodicJobs(request.installation, server=request.installation.name))
    jobs.sort(key=lambda job: (not job.paused, bool(job.versions), job.name))
    more = WebLink("Add or change periodic jobs", "/periodic")
    return [periodic_table(jobs[:ROWS], more if _has(request, "periodic") else None)] if jobs else []


def _has(request: WebRequest, tab: str) -> bool:
    return any(each.name == tab for each in request.installation.config.web_tabs)


def _limits(request: WebRequest) -> list[Block]:
    """Return what is at its limit, with the most held jobs first."""
    full = [group for group in Controls(request.installation).groups() if group.held or _is_full(group)]
    full.sort(key=lambda group: (-group.held, group.name))
    rows: list[Sequence[Cell]] = [controls.group_row(request, group) for group in full[:ROWS]]
    limiters = LimiterSet(request.installation).page(0, _LIMITERS_READ)
    used_up = [one for one in limiters if one.used >= one.limit][:ROWS]
    limiter_rows: list[Sequence[Cell]] = [
        [WebLink(one.name, limiter_path(one)), limit_of(one), one.used, one.waited, one.overages] for one in used_up
    ]
    tables = (
        WebTable("Limits reached", controls.GROUP_COLUMNS, rows, more=WebLink("All limits", controls.PATH)),
        WebTable("Rate limits used up", ("Limiter", "Limit", "Used", "Waited", "Refused"), limiter_rows),
    )
    return [table for table in tables if table.rows]


def _is_full(group: GroupSeen) -> bool:
    return group.limit is not None and group.in_use >= group.limit


# ------------------------------------------------------------------------------- servers and shards


def _servers(server: Installation) -> WebTable:
    """Return a line for each server; one that hangs delays no page."""
    found = counters.read_all(_every(server), _server_state)
    return WebTable("Servers", _SERVER_COLUMNS, [_server(name, state) for name, state in found.items()])


def _every(server: Installation) -> dict[str, Installation]:
    return {name: server.for_server(name) for name in server.config.servers}


def _server_state(server: Installation) -> tuple[ServerInfo, ServerLoad]:
    return counters.server(server), counters.cache_of(server, Flow.read, _LOAD_SECONDS).get().server


def _server(name: str, state: tuple[ServerInfo, ServerLoad] | str) -> Sequence[Cell]:
    if isinstance(state, str):
        return [name, "", *[None] * 6, WebBadge(state, "bad")]
    info, load = state
    limit = info.max_memory_bytes or None
    troubles = [
        *([f"CPU {load.cpu_share:.0%} of one core"] if load.cpu_share > _FULL else []),
        *([f"{info.round_trip_seconds * 1000:.0f} ms per command"] if info.round_trip_seconds > _SLOW_SECONDS else []),
        *(["memory almost full"] if limit and (info.used_memory_bytes or 0) > _FULL * limit else []),
        *(
            ["connections almost used up"]
            if info.max_clients and (info.connected_clients or 0) > _FULL * info.max_clients
            else []
        ),
    ]
    return [
        name,
        f"{info.store} {info.version}, {info.url}",
        _percent(load.cpu_share) if load.minutes else None,
        round(load.commands_per_second) if load.minutes else None,
        None if info.used_memory_bytes is None else info.used_memory_bytes // 1_000_000,
        None if limit is None else limit // 1_000_000,
        info.connected_clients,
        WebDuration(info.round_trip_seconds),
        WebBadge("bottleneck: " + ", ".join(troubles), "bad") if troubles else WebBadge("not the bottleneck", "good"),
    ]


def _shards(server: Installation) -> WebTable:
    """Return processes, load and desired processes of each shard, on all servers."""
    rows: list[Sequence[Cell]] = []
    for name, state in counters.read_all(_every(server), _loaded).items():
        if isinstance(state, str):
            away = [shard for shard, section in server.config.shards.items() if section.server == name]
            rows += [[shard, name, WebBadge(state, "bad"), *[None] * 10] for shard in away]
        else:
            loads, used = state
            rows += [_shard(name, load, used.get(load.name, ())) for load in loads]
    return WebTable("Shards", _SHARD_COLUMNS, rows, "No shards are configured, and no process is running.")


def _loaded(server: Installation) -> _Loaded:
    return counters.cache_of(server, _load, _LOAD_SECONDS).get()


def _load(server: Installation) -> _Loaded:
    return ShardLoads.read(server), ShardLoads.history(config=server)


def _shard(server: str, load: ShardLoad, used: Sequence[float | None]) -> list[Cell]:
    state: Cell = f"{load.processes} and {load.quiet} quiet" if load.quiet else load.processes
    if not load.processes and load.waiting:
        state = WebBadge(str(state) if load.quiet else "no worker", "bad")
    return [
        load.name or "no shard",
        server,
        state,
        load.desired,
        load.threads,
        load.busy,
        WebSpark([share or 0.0 for share in used]) if used else None,
        _percent(load.used_hour),
        _percent(load.used_ten_minutes),
        load.waiting,
        WebDuration(load.latency_seconds if load.waiting else None),
        _percent(load.pressure if load.latest_queue else None),
        listed(load.queues, _QUEUES_SHOWN),
    ]


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def _others(server: Installation) -> WebFacts:
    """Return links to the screens of extensions and of controls."""
    tabs = (controls.TAB, *server.config.web_tabs)
    return WebFacts("More", {"Screens": WebLinks([WebLink(tab.title, tab.path) for tab in tabs])})


TAB = WebTab("fleet", "Fleet", PATH, routes={"": show})
