"""The tab of unique jobs: a list of locks, and a page for each with a button to release it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from offsider.config.web_tab import (
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
from offsider.core.errors import UnknownSubject
from offsider.ext.unique.guard import KEY, RESCHEDULED_ONCE
from offsider.ext.unique.locks import Lock, Locks

if TYPE_CHECKING:
    from offsider.config.web_tab import Block, WebRequest

PATH = "/locks"
_MAX_LOCKS = 500
_COLUMNS = ("Job", "Held by", "Acquired", "Seconds left", "Lock", "")


def make_tab() -> WebTab:
    return WebTab(
        "locks",
        "Locks",
        PATH,
        within="/fleet",
        routes={"": show_all, "/{name}": show_one},
        actions={"/{name}/release": release},
        job_facts=job_facts,
    )


def show_all(request: WebRequest) -> WebPage:
    locks = Locks(request.installation)
    shown = sorted(islice(locks, _MAX_LOCKS), key=lambda lock: lock.taken_at)
    blocks: list[Block] = [WebTable("Held locks", _COLUMNS, [_row(lock) for lock in shown], empty="No locks are held.")]
    if len(shown) == _MAX_LOCKS:
        blocks.insert(
            0, WebNote(f"Showing {_MAX_LOCKS} of about {len(locks)} locks. To list all, use Locks() in Python.")
        )
    return WebPage("Locks", blocks)


def show_one(request: WebRequest) -> WebPage | None:
    lock = next(iter(_found(request)), None)
    if lock is None:
        return None
    facts: dict[str, Cell] = {
        "Job": lock.job_name,
        "Held by": WebLink.to_job(lock.jid),
        "Acquired": WebTime(lock.taken_at),
        "Seconds left": round(lock.ttl_seconds),
        "Runs again": "yes" if lock.runs_again else "no",
    }
    note = WebNote("While this lock is held, a push of the same job is dropped.")
    return WebPage("Lock", [WebFacts("Facts", facts), note, WebButtons([_button(lock)])], subject=lock.name)


def release(request: WebRequest) -> str:
    released = [lock for lock in _found(request) if lock.release()]
    if not released:
        raise UnknownSubject(f"there is no lock of {request.path('name')}: see offsider locks")
    return "; ".join(f"Released: {lock.job_name} {lock.jid}" for lock in released)


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Show the lock of a job on the job's page."""
    lock = payload.get(KEY)
    if not isinstance(lock, str):
        return {}
    facts: dict[str, Cell] = {"Lock": WebLink(lock, f"{PATH}/{lock}")}
    before = payload.get(RESCHEDULED_ONCE)
    return {**facts, "Runs again for": str(before)} if before else facts


def _found(request: WebRequest) -> list[Lock]:
    """Return the lock with this name, or else the locks of the job with this jid."""
    locks, name = Locks(request.installation), request.path("name")
    lock = locks.find(name)
    return [lock for lock in locks if lock.jid == name] if lock is None else [lock]


def _row(lock: Lock) -> list[Cell]:
    again = WebBadge("runs again", "info") if lock.runs_again else WebLink(lock.name[:12], f"{PATH}/{lock.name}")
    return [
        lock.job_name,
        WebLink.to_job(lock.jid),
        WebTime(lock.taken_at),
        round(lock.ttl_seconds),
        again,
        _button(lock),
    ]


def _button(lock: Lock) -> WebButton:
    question = f"Release the lock of {lock.jid}? The same job can then be pushed again while this one may still exist."
    return WebButton("Release", f"{PATH}/{lock.name}/release", confirm=question, danger=True)
