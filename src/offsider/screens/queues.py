"""The screen of queues: size, wait, the workers that serve each, and who paused it; pause, resume and clear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from offsider.config.addresses import queue_path
from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebDuration,
    WebFacts,
    WebFilter,
    WebLink,
    WebLinks,
    WebPage,
    WebPager,
    WebTab,
    WebTable,
)
from offsider.core.controls import MAX_CHARACTERS, QUEUE
from offsider.core.errors import UnknownSubject
from offsider.core.segments import segment
from offsider.core.suggestions import suggest
from offsider.core.wording import counted, listed
from offsider.ext.unique.locks import Locks
from offsider.inspector import (
    ControlInForce,
    Controls,
    Flow,
    Process,
    ProcessSet,
    Queue,
    QueueFlow,
    QueueSummary,
    ServerLook,
)
from offsider.screens.processes import process_path, short_name

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.config.web_tab import WebRequest

PATH = "/fleet/queues"
COLUMNS = ("Queue", "Size", "Wait", "In/s", "Out/s", "Empty in", "Served by", "Paused", "")
#: Workers named in a cell.
_MAX_NAMES = 3
_MAX_LINKS = 50
LOCKS_STAY = (
    "Locks of unique jobs in this queue stay until they expire; until then, pushes of the same jobs are dropped. To "
    "release the locks too, name the application: -r MODULE"
)


def show_all(request: WebRequest) -> WebPage:
    """Show all queues, those in trouble first."""
    look, text = ServerLook.read(request.installation), request.text("name")
    found = [queue for queue in worst_first(look) if text in queue.name]
    queues = table(request.installation, look, found[request.rows()], pager=WebPager(len(found)))
    return WebPage("Queues", [queues], filter=WebFilter({"name": "Queue"}))


def show_one(request: WebRequest) -> WebPage | None:
    """Show one queue: its numbers, and the workers that serve it."""
    look, name = ServerLook.read(request.installation), request.path("name")
    queue = next((each for each in look.queues if each.name == name), None)
    if queue is None:
        return None
    control = pauses(request.installation).get(name)
    serving, quiet = ([p for p in look.listed(name) if p.is_quiet is state] for state in (False, True))
    rates = _flow(queue, look, Flow.read(request.installation).queues.get(name))
    facts: dict[str, Cell] = {
        "Jobs": WebLink(f"{queue.size:,}", queue_path(name)),
        "Wait": WebDuration(queue.latency_seconds if queue.size else None),
        **{column: rate for column, rate in zip(COLUMNS[3:6], rates, strict=True) if rate is not None},
        "Served by": _links(serving) or served_by(look, queue),
        **({"Quiet workers": _links(quiet)} if quiet else {}),
        **({"Paused": _paused(queue, control)} if queue.paused else {}),
    }
    clear = WebButton(
        "Clear",
        f"{PATH}/{segment(name)}/clear",
        {"every": "yes"},
        confirm=f"Permanently delete {name} with {counted(queue.size, 'job')}?",
        danger=True,
    )
    return WebPage("Queue", [WebFacts("Queue", facts), WebButtons([_toggle(queue), clear])], subject=name)


def worst_first(look: ServerLook) -> list[QueueSummary]:
    """Return the queues: with jobs and without a worker, then paused with jobs, then by the wait."""

    def rank(queue: QueueSummary) -> tuple[bool, bool, float, int, str]:
        stands = bool(queue.size) and not look.is_served(queue.name)
        return not stands, not (queue.paused and queue.size), -queue.latency_seconds, -queue.size, queue.name

    return sorted(look.queues, key=rank)


def table(
    server: Installation,
    look: ServerLook,
    queues: Iterable[QueueSummary],
    *,
    pager: WebPager | None = None,
    more: WebLink | None = None,
) -> WebTable:
    """Return the table of these queues."""
    controls, flows = pauses(server), Flow.read(server).queues
    rows: list[list[Cell]] = [
        [
            WebLink(queue.name, queue_path(queue.name)),
            queue.size,
            WebDuration(queue.latency_seconds if queue.size else None),
            *_flow(queue, look, flows.get(queue.name)),
            served_by(look, queue),
            _paused(queue, controls.get(queue.name)),
            _toggle(queue),
        ]
        for queue in queues
    ]
    return WebTable("Queues", COLUMNS, rows, "There are no queues.", pager, more)


def _flow(queue: QueueSummary, look: ServerLook, flow: QueueFlow | None) -> tuple[Cell, Cell, Cell]:
    """Return the rates of the last five minutes, and when the queue is empty at these; unknown without a sample."""
    if flow is None or not look.is_counted(queue.name):
        return None, None, None
    stands = queue.size and (queue.paused or not look.is_served(queue.name))
    eta = None if stands else flow.eta_seconds
    empty = WebBadge("never", "warn") if eta is None else WebDuration(eta or None)
    return flow.in_per_second, flow.out_per_second, empty


def served_by(look: ServerLook, queue: QueueSummary) -> Cell:
    """Return the workers that claim jobs of a queue; if there are none, why."""
    processes = look.listed(queue.name)
    serving = [process for process in processes if not process.is_quiet]
    if serving:
        text = short_name(serving[0]) if len(serving) == 1 else f"{len(serving)} processes"
        return WebLink(text, f"{PATH}/{segment(queue.name)}")
    names = listed(map(short_name, processes), _MAX_NAMES)
    quiet = f": {names} {'is' if len(processes) == 1 else 'are'} quiet" if processes else ""
    return WebBadge(f"no worker{quiet}", "bad" if queue.size else "")


def pauses(server: Installation) -> Mapping[str, ControlInForce]:
    """Return the control of each paused queue, which has the author, the time and the reason."""
    controls = Controls(server).of_server()
    return {one.subject.removeprefix(QUEUE): one for one in controls if one.subject.startswith(QUEUE)}


def _paused(queue: QueueSummary, control: ControlInForce | None) -> Cell:
    if not queue.paused:
        return None
    if control is None or not control.since:
        return WebBadge("paused by an unknown client", "warn")
    since = f"{datetime.fromtimestamp(control.since, UTC):%Y-%m-%d %H:%M:%S} UTC"
    by = f" by {control.by}" if control.by else ""
    return WebBadge(f"paused {since}{by}{f': {control.reason}' if control.reason else ''}", "warn")


def _toggle(queue: QueueSummary) -> WebButton:
    path = f"{PATH}/{segment(queue.name)}"
    return WebButton("Resume", f"{path}/resume") if queue.paused else WebButton("Pause", f"{path}/pause")


def _links(processes: Sequence[Process]) -> WebLinks | None:
    shown = [WebLink(short_name(process), process_path(process.identity)) for process in processes[:_MAX_LINKS]]
    more = [] if len(processes) <= _MAX_LINKS else [f"{len(processes) - _MAX_LINKS} more"]
    return WebLinks([*shown, *more]) if processes else None


# ------------------------------------------------------------------------------------- actions


def pause(request: WebRequest) -> str:
    """Stop all workers from claiming jobs of the queue."""
    queue = _queue(request, may_be_empty=True)
    queue.pause(by=request.actor, reason=request.text("reason", most=MAX_CHARACTERS))
    return f"Paused: {queue.name}"


def resume(request: WebRequest) -> str:
    """Let workers claim its jobs again."""
    queue = _queue(request)
    queue.unpause(by=request.actor)
    return f"Resumed: {queue.name}"


def clear(request: WebRequest) -> str:
    """Permanently delete the queue with its jobs."""
    queue, server = _queue(request), request.installation
    request.choice("every", ("yes",), "")  # raises without it: the request may have lost a field
    locks_stay = "unique" not in server.config.extensions and len(Locks(server)) > 0
    done = f"{queue.name}: {counted(queue.clear(), 'job')} deleted"
    return f"{done}. {LOCKS_STAY}" if locks_stay else done


def _queue(request: WebRequest, *, may_be_empty: bool = False) -> Queue:
    """Return the queue of a request. With `may_be_empty` it suffices that a worker serves it."""
    name, server = request.path("name"), request.installation
    queue = Queue(name, server)
    if queue.exists or queue.paused:
        return queue
    reported = {each for process in ProcessSet(server) for each in process.queues} if may_be_empty else set[str]()
    if name not in reported:
        near = suggest(name, {*reported, *(each.name for each in Queue.all(server))})
        raise UnknownSubject(f"unknown queue {name}{near}")
    return queue


TAB = WebTab(
    "queues",
    "Queues",
    PATH,
    within="/fleet",
    routes={"": show_all, "/{name}": show_one},
    actions={"/{name}/pause": pause, "/{name}/resume": resume, "/{name}/clear": clear},
    fields={"/{name}/pause": ("reason",), "/{name}/clear": ("every",)},
)
