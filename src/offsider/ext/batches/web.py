"""The tab of batches: a list, a page for each batch, and ``GET /batch_status/<bid>.json`` as in Sidekiq."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebFilter,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebPager,
    WebProgress,
    WebScan,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.errors import UnknownBatch
from offsider.ext.batches import store
from offsider.ext.batches.batch import Batch
from offsider.ext.batches.status import BatchSet, Status
from offsider.ext.batches.store import BID, CALLBACK_OF
from offsider.inspector.scan import PAGE_BUDGET_MS, PAGE_MATCHES

if TYPE_CHECKING:
    from offsider.config.web_tab import Block, WebRequest

PATH = "/batches"
MAX_ROWS = 100
#: Tags of a batch in the list, and the longest text of a filter.
_MAX_TAGS = 20
_MAX_TAG_CHARACTERS = 100
_MEMBER_COLUMNS = ("JID", "Job and error")
_COLUMNS = ("Batch", "Description", "Tags", "State", "Progress", "Pending", "Failures", "Created")


def make_tab() -> WebTab:
    return WebTab(
        "batches",
        "Batches",
        PATH,
        within="/jobs",
        routes={"": show_all, "/{bid}": show_one},
        actions={
            "/{bid}/invalidate": partial(_act, Batch.invalidate_all, "Invalidated"),
            "/{bid}/close": partial(_act, Batch.close_blocks, "Closed all blocks"),
            "/{bid}/delete": partial(_act, Batch.delete, "Deleted"),
        },
        job_facts=job_facts,
        json={"/batch_status/{bid}.json": as_json},
    )


def show_all(request: WebRequest) -> WebPage:
    batches, tag, rows = BatchSet(request.installation), request.text("tag", most=_MAX_TAG_CHARACTERS), request.rows()
    if tag:
        chunk = batches.scan(tag, request.text("cursor"), PAGE_BUDGET_MS, PAGE_MATCHES)
        found = sorted(chunk.entries, key=lambda status: status.created_at, reverse=True)
        pager: WebPager | WebScan = WebScan(chunk.scanned, chunk.total, chunk.cursor)
    else:
        found, pager = batches.page(rows.start, rows.stop - rows.start), WebPager(len(batches))
    empty = "No batch has this tag." if tag else "No batches."
    table = WebTable("Batches", _COLUMNS, [_row(request, status) for status in found], empty, pager)
    return WebPage("Batches", [table], filter=WebFilter({"tag": "Tag"}))


def show_one(request: WebRequest) -> WebPage | None:
    batch = Batch(request.path("bid"), config=request.installation)
    try:
        status = batch.status()
    except UnknownBatch:
        return None
    callbacks: list[list[Cell]] = [
        [call.event, call.job, WebLink.to_job(call.jid), call.queue, WebTime(_seconds(call.pushed_at))]
        for call in status.callbacks
    ]
    blocks: list[Block] = [
        WebFacts("Status", _facts(request, status)),
        WebButtons(_buttons(status)),
        WebTable("Callbacks", ("Event", "Job", "JID", "Queue", "Pushed"), callbacks, empty="No callbacks."),
        *_first("Children", _COLUMNS, (_row(request, child) for child in _children(batch))),
        *_first("Failed members", _MEMBER_COLUMNS, map(_member, batch.failed())),
        *_first("Dead members", _MEMBER_COLUMNS, map(_member, batch.died())),
    ]
    if status.open_blocks:
        text = "A block of this batch is storing jobs, so no callback is pushed. If its process died, close it."
        blocks.insert(0, WebNote(text, "warn"))
    return WebPage("Batch", blocks, subject=batch.bid)


def as_json(request: WebRequest) -> Mapping[str, Any] | None:
    try:
        status = Batch(request.path("bid"), config=request.installation).status()
    except UnknownBatch:
        return None
    texts = {"description": request.unquoted(status.description), "tags": [*map(request.unquoted, status.tags)]}
    return status.as_dict() | texts


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Show the batch of a job on the job's page."""
    facts = {"Batch": payload.get(BID), "Callback of batch": payload.get(CALLBACK_OF)}
    return {name: WebLink(bid, f"{PATH}/{quote(bid, safe='')}") for name, bid in facts.items() if isinstance(bid, str)}


def _act(act: Callable[[Batch], object], what: str, request: WebRequest) -> str:
    batch = Batch(request.path("bid"), config=request.installation)
    act(batch)
    return f"{what}: {batch.bid}"


def _row(request: WebRequest, status: Status) -> list[Cell]:
    return [
        _batch_link(status.bid),
        request.unquoted(status.description),
        _tags(request, status),
        _state(status),
        WebProgress(status.done, status.total),
        status.pending,
        status.failures,
        WebTime(_seconds(status.created_at)),
    ]


def _state(status: Status) -> WebBadge:
    if status.unreadable:
        return WebBadge("unreadable fields", "bad")
    if status.success:
        return WebBadge("succeeded", "good")
    if status.invalidated_at:
        return WebBadge("invalidated", "warn")
    if status.death_at:
        return WebBadge("dead jobs", "bad")
    if status.open_blocks:
        return WebBadge("open", "info")
    return WebBadge("complete", "warn") if status.complete else WebBadge("running", "info")


def _facts(request: WebRequest, status: Status) -> dict[str, Cell]:
    times = {
        "Created": status.created_at,
        "Opened": status.opened_at,
        "First death": status.death_at,
        "Complete": status.complete_at,
        "Succeeded": status.success_at,
        "Invalidated": status.invalidated_at,
    }
    facts: dict[str, Cell] = {
        "Description": request.unquoted(status.description),
        "State": _state(status),
        "Unreadable fields": ", ".join(status.unreadable) or None,
        "Succeeded members": WebProgress(status.done, status.total),
        "Pending members": status.pending,
        "Failures": status.failures,
        "Parent": _batch_link(status.parent_bid) if status.parent_bid else None,
        "Pending children": status.pending_kids or None,
        "Open blocks": status.open_blocks or None,
        "Tags": _tags(request, status) if status.tags else None,
        **{name: WebTime(_seconds(at)) for name, at in times.items() if at},
        "Duration": _duration(status),
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, "")}


def _tags(request: WebRequest, status: Status) -> WebLinks:
    return WebLinks([_tag(request, tag) for tag in status.tags[:_MAX_TAGS]])


def _tag(request: WebRequest, tag: str) -> WebLink | str:
    """Return a link to the batches with this tag; a plain text if no filter finds it."""
    if request.unquoted(tag) != tag:
        return request.unquoted(tag)
    is_findable = 0 < len(tag) <= _MAX_TAG_CHARACTERS and tag == tag.strip() and tag.isprintable()
    return WebLink(tag, f"{PATH}?{urlencode({'tag': tag})}") if is_findable else tag


def _duration(status: Status) -> str | None:
    """Return the time from the first block to the success; None before."""
    if not status.success_at or not status.opened_at:
        return None
    return f"{(status.success_at - status.opened_at) / 1000:,.1f} s"


def _children(batch: Batch) -> list[Status]:
    return BatchSet(batch.server).read(store.kids(batch.server.redis, batch.bid)[: MAX_ROWS + 1])


def _member(member: tuple[str, str]) -> list[Cell]:
    jid, about = member
    return [WebLink.to_job(jid), about]


def _first(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[Block]:
    """Yield a table of the first rows, and a note if there are more."""
    first = list(islice(rows, MAX_ROWS + 1))
    yield WebTable(title, columns, first[:MAX_ROWS], empty=f"No {title.lower()}.")
    if len(first) > MAX_ROWS:
        yield WebNote(f"{title}: only {MAX_ROWS} are shown.")


def _buttons(status: Status) -> list[WebButton]:
    path = f"{PATH}/{status.bid}"
    buttons = [
        WebButton("Invalidate", f"{path}/invalidate", confirm="Invalidate the batch? Members can then return early."),
        WebButton("Delete", f"{path}/delete", confirm="Delete the batch? Its jobs run without callbacks.", danger=True),
    ]
    if status.open_blocks:
        question = "Close all blocks? Callbacks are pushed even if another process is still adding jobs."
        buttons.insert(0, WebButton("Close blocks", f"{path}/close", confirm=question))
    return buttons


def _batch_link(bid: str) -> WebLink:
    return WebLink(bid, f"{PATH}/{quote(bid, safe='')}")


def _seconds(at_ms: int | None) -> float | None:
    return at_ms / 1000 if at_ms else None
