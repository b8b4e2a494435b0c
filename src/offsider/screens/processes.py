"""The screen of worker processes and of the jobs that they run; signals to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from offsider.config.addresses import class_path, job_path, queue_path
from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebDuration,
    WebFacts,
    WebFilter,
    WebLink,
    WebPage,
    WebPager,
    WebProgress,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.errors import CannotCancel, EmbeddedProcess, UnknownSubject
from offsider.core.segments import segment
from offsider.core.wording import listed
from offsider.inspector import Process, ProcessSet, Work, WorkSet
from offsider.inspector.work import cursors_of
from offsider.screens.errors import BadRequest

if TYPE_CHECKING:
    from offsider.config.web_tab import Block, WebRequest

PATH = "/fleet/processes"
COLUMNS = (
    *("Process", "Tags", "Release", "State", "Busy", "Memory, MB", "Round trip", "Started", "Heartbeat", "Queues"),
    "",
)
RUNNING_COLUMNS = ("Class", "JID", "Queue", "Process", "Thread", "Running for", "Cursor", "")
#: A process is silent after three missed heartbeats.
SILENT_SECONDS = 30.0
_MAX_NAMES = 4
#: Letters of a cursor in a table.
_MAX_CURSOR = 40
_EVERY = {"every": "yes"}


def show_all(request: WebRequest) -> WebPage:
    """Show all processes."""
    text = request.text("name")
    processes = list(iter(ProcessSet(request.installation)))
    found = [each for each in processes if text in each.identity or text in (each.tag, each.shard, *each.labels)]
    processes_table = table(request, found[request.rows()], pager=WebPager(len(found)))
    filter_ = WebFilter({"name": "Process, tag, shard or label"})
    return WebPage("Processes", [*signals_to_all(processes), processes_table], filter=filter_)


def show_running(request: WebRequest) -> WebPage:
    """Show the running jobs, longest first."""
    works, text = list(iter(WorkSet(request.installation))), request.text("name")
    found = [work for work in works if text in work.record.display_class or text in work.process]
    jobs = running(request, found[request.rows()], pager=WebPager(len(found)))
    return WebPage("Running jobs", [jobs], filter=WebFilter({"name": "Class or process"}))


def show_one(request: WebRequest) -> WebPage | None:
    """Show one process: its capsules, and its running jobs."""
    process = ProcessSet(request.installation).find(request.path("identity"))
    if process is None:
        return None
    facts: dict[str, Cell] = {
        "State": state(process, request.installation.config.clock.now()),
        "Release": process.app_version,
        "Version": process.version,
        "Tag": process.tag,
        "Shard": process.shard,
        "Labels": ", ".join(process.labels),
        "Busy": WebProgress(process.busy, process.concurrency),
        "Memory, MB": _megabytes(process),
        "Round trip": _round_trip(process),
        "Started": WebTime(process.started_at or None),
        "Heartbeat": WebTime(process.beat_at or None),
    }
    works = [work for work in WorkSet(request.installation) if work.process == process.identity]
    capsules: list[list[Cell]] = [
        [name, capsule.concurrency, capsule.mode, ", ".join(map(_weighted, capsule.weights.items()))]
        for name, capsule in process.capsules.items()
    ] or [["", process.concurrency, "", ", ".join(process.queues)]]
    blocks: list[Block] = [
        WebFacts("Process", {name: fact for name, fact in facts.items() if fact != ""}),
        WebButtons([] if process.embedded else _signals(process)),
        WebTable("Capsules", ("Capsule", "Threads", "Mode", "Queues"), capsules),
        running(request, works[request.rows()], pager=WebPager(len(works))),
    ]
    return WebPage("Process", blocks, subject=process.identity)


def table(
    request: WebRequest, processes: Iterable[Process], *, pager: WebPager | None = None, more: WebLink | None = None
) -> WebTable:
    """Return the table of these processes."""
    now = request.installation.config.clock.now()
    rows: list[list[Cell]] = [
        [
            WebLink(short_name(process), process_path(process.identity)),
            ", ".join(filter(None, (process.tag, process.shard, *process.labels))),
            process.app_version,
            state(process, now),
            WebProgress(process.busy, process.concurrency),
            _megabytes(process),
            _round_trip(process),
            WebTime(process.started_at or None),
            WebTime(process.beat_at or None),
            listed(process.queues, _MAX_NAMES),
            None if process.embedded or process.is_quiet else _signals(process)[0],
        ]
        for process in processes
    ]
    return WebTable("Processes", COLUMNS, rows, "No processes are running.", pager, more)


def running(
    request: WebRequest, works: Sequence[Work], *, pager: WebPager | None = None, more: WebLink | None = None
) -> WebTable:
    """Return the table of these running jobs."""
    cursors = cursors_of(works, request.installation)
    rows: list[list[Cell]] = [
        [
            WebLink(work.record.display_class, class_path(work.record.display_class)),
            WebLink(work.jid, job_path(work.jid)),
            WebLink(work.queue, queue_path(work.queue)),
            WebLink(work.process.rpartition(":")[0] or work.process, process_path(work.process)),
            work.tid,
            WebDuration(work.elapsed_seconds),
            request.unquoted(cursor[:_MAX_CURSOR]),
            _cancel_button(work),
        ]
        for work, cursor in zip(works, cursors, strict=True)
    ]
    return WebTable("Running jobs", RUNNING_COLUMNS, rows, "No jobs are running.", pager, more)


def signals_to_all(processes: Sequence[Process]) -> list[WebButtons]:
    """Return the buttons for all processes that can be signaled; nothing without one."""
    count = sum(not process.embedded for process in processes)
    if not count:
        return []
    quiet = f"Quiet all {count} processes? They stop claiming new jobs."
    return [
        WebButtons(
            [
                WebButton("Quiet all", f"{PATH}/quiet", _EVERY, confirm=quiet),
                WebButton("Stop all", f"{PATH}/stop", _EVERY, confirm=f"Stop all {count} processes?", danger=True),
            ]
        )
    ]


def state(process: Process, now: float) -> WebBadge:
    """Return what a process does, as far as its last heartbeat tells."""
    also = ", leader" * process.leader + ", embedded" * process.embedded
    if process.beat_at and now - process.beat_at > SILENT_SECONDS:
        return WebBadge(f"silent{also}", "bad")
    return WebBadge(f"quiet{also}", "warn") if process.is_quiet else WebBadge(f"working{also}", "good")


def process_path(identity: str) -> str:
    """Return the address of a process."""
    return f"{PATH}/{segment(identity)}"


def short_name(process: Process) -> str:
    """Return ``host:pid``."""
    return process.identity.rpartition(":")[0] or process.identity


def _cancel_button(work: Work) -> WebButton:
    question = f"Cancel {work.record.display_class} {work.jid}? The run fails, and the job moves to the dead set."
    return WebButton("Cancel", f"{PATH}/running/{segment(work.jid)}/cancel", confirm=question, danger=True)


def _signals(process: Process) -> list[WebButton]:
    path, name = process_path(process.identity), process.identity
    quiet = f"Quiet {name}? It stops claiming new jobs."
    buttons = [] if process.is_quiet else [WebButton("Quiet", f"{path}/quiet", confirm=quiet)]
    stop = WebButton("Stop", f"{path}/stop", confirm=f"Stop {name}?", danger=True)
    return [*buttons, stop, WebButton("Log stacks", f"{path}/dump")]


def _megabytes(process: Process) -> int | None:
    return process.rss_kilobytes // 1024 or None


def _round_trip(process: Process) -> WebDuration:
    return WebDuration(process.round_trip_microseconds / 1_000_000 or None)


def _weighted(queue: tuple[str, int]) -> str:
    name, weight = queue
    return f"{name} \N{MULTIPLICATION SIGN}{weight}" if weight else name


# ------------------------------------------------------------------------------------- actions


def _signaling(send: Callable[[Process], None], done: str) -> Callable[[WebRequest], str]:
    def to_one(request: WebRequest) -> str:
        identity = request.path("identity")
        process = ProcessSet(request.installation).find(identity)
        if process is None:
            raise UnknownSubject(f"no worker {identity} is registered: it has ended")
        try:
            send(process)
        except EmbeddedProcess as error:
            raise BadRequest(str(error)) from error
        return f"{done}: {identity}"

    return to_one


def _signaling_all(send: Callable[[Process], None], done: str) -> Callable[[WebRequest], str]:
    def to_all(request: WebRequest) -> str:
        request.choice("every", ("yes",), "")  # raises without it
        processes = [process for process in ProcessSet(request.installation) if not process.embedded]
        for process in processes:
            send(process)
        return f"{done}: {', '.join(process.identity for process in processes) or 'no process is running'}"

    return to_all


def cancel(request: WebRequest) -> str:
    """Cancel one running job."""
    jid = request.path("jid")
    work = WorkSet(request.installation).find_work(jid)
    if work is None:
        raise UnknownSubject(f"job {jid} is not running")
    try:
        work.cancel()
    except CannotCancel as error:
        raise BadRequest(str(error)) from error
    return f"Asked to cancel: {work.record.display_class} {jid}"


TAB = WebTab(
    "processes",
    "Processes",
    PATH,
    within="/fleet",
    routes={"": show_all, "/running": show_running, "/{identity}": show_one},
    actions={
        "/quiet": _signaling_all(Process.quiet, "Asked to be quiet"),
        "/stop": _signaling_all(Process.stop, "Asked to stop"),
        "/running/{jid}/cancel": cancel,
        "/{identity}/quiet": _signaling(Process.quiet, "Asked to be quiet"),
        "/{identity}/stop": _signaling(Process.stop, "Asked to stop"),
        "/{identity}/dump": _signaling(Process.dump, "Asked to log the stacks of all threads"),
    },
    fields=dict.fromkeys(("/quiet", "/stop"), ("every",)),
)
