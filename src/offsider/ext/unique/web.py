"""The tab of unique jobs: which locks are held, by which jobs, for how long; and a way to free one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from offsider.ext.unique.guard import AGAIN, KEY
from offsider.ext.unique.locks import Lock, Locks
from offsider.wiring.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebLink,
    WebNote,
    WebPage,
    WebTab,
    WebTable,
    WebTime,
)

if TYPE_CHECKING:
    from offsider.wiring.web_tab import Block, WebVisit

PATH = "/locks"
_MOST = 500
_COLUMNS = ("Job", "Held by", "Taken", "Seconds left", "Lock", "")


def make_tab() -> WebTab:
    return WebTab(
        "locks",
        "Locks",
        PATH,
        routes={"": show_all, "/{name}": show_one},
        actions={"/{name}/release": release},
        job_facts=job_facts,
    )


def show_all(visit: WebVisit) -> WebPage:
    locks = Locks(visit.config)
    shown = sorted(islice(locks, _MOST), key=lambda lock: lock.taken_at)
    blocks: list[Block] = [WebTable("Held locks", _COLUMNS, [_row(lock) for lock in shown], empty="No lock is held.")]
    if len(shown) == _MOST:
        blocks.insert(0, WebNote(f"These are {_MOST} of about {len(locks)} locks; Locks() in Python goes through all."))
    return WebPage("Locks", blocks)


def show_one(visit: WebVisit) -> WebPage | None:
    lock = Locks(visit.config).find(visit.path("name"))
    if lock is None:
        return None
    facts: dict[str, Cell] = {
        "Job": lock.job_name,
        "Held by": _job_link(lock),
        "Taken": WebTime(lock.taken_at),
        "Seconds left": round(lock.ttl_seconds),
        "Runs once more": "yes" if lock.runs_again else "no",
    }
    note = WebNote("While this lock is held, a push of the same job is dropped.")
    return WebPage("Lock", [WebFacts("Facts", facts), note, WebButtons([_button(lock)])], subject=lock.name)


def release(visit: WebVisit) -> str:
    name = visit.path("name")
    return f"Released: {name}" if Locks(visit.config).release(name) else f"Nobody holds {name} any more"


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """The lock of a job, on its page."""
    lock = payload.get(KEY)
    if not isinstance(lock, str):
        return {}
    facts: dict[str, Cell] = {"Lock": WebLink(lock, f"{PATH}/{lock}")}
    before = payload.get(AGAIN)
    return {**facts, "Runs once more for": str(before)} if before else facts


def _row(lock: Lock) -> list[Cell]:
    again = WebBadge("runs once more", "info") if lock.runs_again else WebLink(lock.name[:12], f"{PATH}/{lock.name}")
    return [lock.job_name, _job_link(lock), WebTime(lock.taken_at), round(lock.ttl_seconds), again, _button(lock)]


def _job_link(lock: Lock) -> WebLink:
    return WebLink(lock.jid, f"/search?q={quote(lock.jid)}")


def _button(lock: Lock) -> WebButton:
    question = "Free this lock? The same job can then be pushed again, although this one may still be there."
    return WebButton("Release", f"{PATH}/{lock.name}/release", confirm=question, danger=True)
