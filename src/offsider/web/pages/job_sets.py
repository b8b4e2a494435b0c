"""Retries, scheduled and dead jobs: three pages of one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.inspector import DeadSet, JobFilter, JobSet, Quarantine, RetrySet, ScheduledSet, SetEntry
from offsider.web.answers import Done, Page
from offsider.web.filters import (
    BUDGET_MS,
    ENOUGH,
    MOST_PAGES,
    PAGE,
    PREVIEW_MS,
    address,
    facets,
    fields_of,
    filter_data,
    pager,
    progress,
    wanted,
)
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment, shown
from offsider.web.words import Words, counted

if TYPE_CHECKING:
    from offsider.web.visit import Visit

_ORDERS = ("earliest", "latest")
_FOR_GOOD = "Delete these jobs for good?"


@dataclass(frozen=True)
class SetPage:
    """One of the three.

    Attributes:
        path: of the page.
        title: of the page.
        kind: what it shows.
        order: which jobs come first unless somebody asks for the others.
        verbs: what can be done with its jobs.
    """

    path: str
    title: str
    kind: type[JobSet]
    order: str
    verbs: tuple[str, ...]


RETRIES = SetPage("/retries", "Retries", RetrySet, "earliest", ("retry", "kill", "quarantine", "delete"))
SCHEDULED = SetPage("/scheduled", "Scheduled", ScheduledSet, "earliest", ("add_to_queue", "quarantine", "delete"))
DEAD = SetPage("/dead", "Dead", DeadSet, "latest", ("retry", "quarantine", "delete"))
SET_PAGES = (RETRIES, SCHEDULED, DEAD)


@dataclass(frozen=True)
class Verb:
    """What can be done with jobs of a set.

    Attributes:
        done: how it is told, in English, with a place for the count.
        one: does it to one job; False when that has left the set.
        every: does it to all that match, and answers how many there were.
        confirm: asked before it is done to chosen jobs.
    """

    done: str
    one: Callable[[SetEntry], bool]
    every: Callable[[JobSet, JobFilter | None], int]
    confirm: str = ""


def _delete_all(jobs: JobSet, asked: JobFilter | None) -> int:
    return jobs.clear() if asked is None else jobs.delete_all(asked)


VERBS = {
    "retry": Verb("Sent to their queues: {count}", SetEntry.retry, JobSet.retry_all),
    "add_to_queue": Verb("Sent to their queues: {count}", SetEntry.add_to_queue, JobSet.enqueue_all),
    "kill": Verb("Moved to the dead jobs: {count}", SetEntry.kill, JobSet.kill_all),
    "quarantine": Verb("Moved to quarantine: {count}", SetEntry.quarantine, JobSet.quarantine_all),
    "delete": Verb("Deleted: {count}", SetEntry.delete, _delete_all, confirm=_FOR_GOOD),
}


def show(page: SetPage, visit: Visit) -> Page:
    """The jobs of a set, page by page, or those that match a filter."""
    jobs, asked = page.kind(visit.config), wanted(visit)
    order = visit.choice("order", _ORDERS, page.order)
    data: dict[str, Any] = {
        "set": jobs.name,
        "path": page.path,
        "size": len(jobs),
        "quarantine_size": len(Quarantine(visit.config)),
        "order": order,
        "orders": {name: address(page.path, **fields_of(asked), order=name) for name in _ORDERS},
        "verbs": list(page.verbs),
        "selected": {verb: f"{page.path}/selected/{verb}" for verb in page.verbs},
        "every": {verb: address(f"{page.path}/all", **fields_of(asked), verb=verb) for verb in page.verbs},
        "filter": filter_data(page.path, asked, order=order),
    }
    listed = (
        _listed(visit, page, jobs, order, data["size"]) if asked.empty else _matching(visit, page, jobs, asked, order)
    )
    return Page("job_set", page.title, data | listed, tab=page.path)


def _listed(visit: Visit, page: SetPage, jobs: JobSet, order: str, size: int) -> dict[str, Any]:
    number = visit.number("page", default=1, lowest=1, highest=MOST_PAGES)
    entries = jobs.page((number - 1) * PAGE, PAGE, newest_first=order == "latest")
    return {
        "jobs": _rows(visit, jobs, entries),
        "pager": pager(page.path, number, size, order=order),
        "search": None,
        "facets": facets(entries, page.path, JobFilter(), order=order),
        "sampled": len(entries),
    }


def _matching(visit: Visit, page: SetPage, jobs: JobSet, asked: JobFilter, order: str) -> dict[str, Any]:
    chunk = jobs.scan(asked, visit.text("cursor"), budget_ms=BUDGET_MS, most=ENOUGH)
    return {
        "jobs": _rows(visit, jobs, sorted(chunk.entries, key=attrgetter("score"), reverse=order == "latest")),
        "pager": None,
        "search": progress(visit, chunk, page.path, **fields_of(asked), order=order),
        "facets": facets(chunk.entries, page.path, asked, order=order),
        "sampled": len(chunk.entries),
    }


def _rows(visit: Visit, jobs: JobSet, entries: Iterable[SetEntry]) -> list[dict[str, Any]]:
    return [
        shown(entry, visit.redacted, where=jobs.name, key=entry.key) | {"at": moment(entry.at)} for entry in entries
    ]


def ask(page: SetPage, visit: Visit) -> Page:
    """What doing something to all jobs, or to all that match, would do it to."""
    jobs, asked = page.kind(visit.config), wanted(visit)
    verb = visit.choice("verb", page.verbs, page.verbs[0])
    size = len(jobs)
    preview = None if asked.empty else jobs.preview(asked, budget_ms=PREVIEW_MS)
    choices = ("quarantine", "delete") if verb in {"quarantine", "delete"} else (verb,)
    data = {
        "verb": "remove" if len(choices) > 1 else verb,
        "name": "",
        "path": page.path,
        "matched": preview.matched if preview else size,
        "scanned": preview.scanned if preview else size,
        "complete": preview.complete if preview else True,
        "total": size,
        "filter": filter_data(page.path, asked),
        "actions": {choice: f"{page.path}/all/{choice}" for choice in choices},
        "back": address(page.path, **fields_of(asked)),
        "days": visit.config.worker.quarantine_days,
    }
    return Page("bulk", page.title, data, tab=page.path)


def all_jobs(page: SetPage, name: str, visit: Visit) -> Done:
    """Do it to all that match."""
    asked = wanted(visit)
    verb = VERBS[name]
    count = verb.every(page.kind(visit.config), None if asked.empty else asked)
    return Done(page.path, Words(verb.done, count=count), {"done_to": count})


def selected(page: SetPage, name: str, visit: Visit) -> Done:
    """Do it to the chosen jobs."""
    jobs, verb = page.kind(visit.config), VERBS[name]
    outcome = Outcome()
    keys = visit.selected("key")
    for key in keys:
        outcome.add(jobs.entry(key), verb.one)
    back = address(page.path, **fields_of(wanted(visit)))
    return Done(back, outcome.told(verb.done), outcome.data())


class Outcome:
    """How doing something to several jobs went."""

    def __init__(self) -> None:
        self.done = self.gone = 0
        self.refused: list[str] = []

    def add(self, entry: SetEntry | None, act: Callable[[SetEntry], bool]) -> None:
        try:
            if entry is not None and act(entry):
                self.done += 1
            else:
                self.gone += 1
        except (MalformedPayload, RedisRefused) as error:
            self.refused.append(str(error))

    def told(self, done: str) -> Words:
        told = counted(done, self.done, self.gone)
        if self.refused:
            told += Words("Not possible: {count} ({reason})", count=len(self.refused), reason=self.refused[0])
        return told

    def data(self) -> dict[str, Any]:
        return {"done_to": self.done, "gone": self.gone, "refused": self.refused}


Handler: TypeAlias = "Callable[[Visit], Page | Done]"


def _routes(page: SetPage) -> Iterator[Route]:
    yield Route("GET", page.path, LOOK, partial(show, page))
    yield Route("GET", f"{page.path}/all", LOOK, partial(ask, page))
    for name in page.verbs:
        yield Route("POST", f"{page.path}/all/{name}", f"jobs.{name}", partial(all_jobs, page, name))
        path, confirm = f"{page.path}/selected/{name}", VERBS[name].confirm
        yield Route("POST", path, f"job.{name}", partial(selected, page, name), confirm=confirm)


ROUTES = [route for page in SET_PAGES for route in _routes(page)]
