"""The pages of retries, scheduled and dead jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.inspector import Counted, DeadSet, JobSet, Quarantine, RetrySet, ScheduledSet, SetEntry
from offsider.web.bulk import Bulk
from offsider.web.filters import address, fields_of, listed, wanted
from offsider.web.page_request import PageRequest
from offsider.web.results import Done, Message, Page, with_gone
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment, shown

_ORDERS = ("earliest", "latest")


@dataclass(frozen=True)
class SetPage:
    """The page of a job set.

    Attributes:
        path: path of the page.
        title: message id of the title.
        kind: the job set.
        order: default order.
        verbs: actions on its jobs.
    """

    path: str
    title: str
    kind: type[JobSet]
    order: str
    verbs: tuple[str, ...]


RETRIES = SetPage("/retries", "term.retries", RetrySet, "earliest", ("retry", "kill", "quarantine", "delete"))
SCHEDULED = SetPage("/scheduled", "term.scheduled", ScheduledSet, "earliest", ("add_to_queue", "quarantine", "delete"))
DEAD = SetPage("/dead", "term.dead", DeadSet, "latest", ("retry", "quarantine", "delete"))
SET_PAGES = (RETRIES, SCHEDULED, DEAD)


@dataclass(frozen=True)
class Verb:
    """An action on jobs of a set.

    Attributes:
        done: message id of the result, with a count.
        one: acts on one job; returns False if the job has left the set.
        every: acts on the counted jobs.
    """

    done: str
    one: Callable[[SetEntry], bool]
    every: Callable[[JobSet, Counted, float | None], int]


#: The reason passed to death handlers.
KILLED = "killed in the web UI"

VERBS = {
    "retry": Verb("done.added", SetEntry.retry, JobSet.retry_all),
    "add_to_queue": Verb("done.added", SetEntry.add_to_queue, JobSet.enqueue_all),
    "kill": Verb(
        "done.killed",
        lambda entry: entry.kill(KILLED),
        lambda jobs, counted, budget_ms: jobs.kill_all(counted, budget_ms, KILLED),
    ),
    "quarantine": Verb("done.quarantined", SetEntry.quarantine, JobSet.quarantine_all),
    "delete": Verb("done.deleted", SetEntry.delete, JobSet.delete_all),
}


def show(page: SetPage, request: PageRequest) -> Page:
    """Show the jobs of a set in pages, or the jobs that match a filter."""
    jobs, fields = page.kind(request.installation), fields_of(wanted(request))
    order = request.choice("order", _ORDERS, page.order)
    data: dict[str, Any] = {
        "set": jobs.name,
        "path": page.path,
        "size": len(jobs),
        "quarantine_size": len(Quarantine(request.installation)),
        "verbs": list(page.verbs),
        "selected": {verb: f"{page.path}/selected/{verb}" for verb in page.verbs},
        "every": {verb: address(f"{page.path}/all", **fields, verb=verb) for verb in page.verbs},
    }

    def row(entry: SetEntry) -> dict[str, Any]:
        return shown(entry, request.redacted, where=jobs.name, key=entry.key) | {"at": moment(entry.at)}

    score = attrgetter("score")
    data |= listed(request, jobs, page.path, size=data["size"], orders=_ORDERS, order=order, row=row, score=score)
    return Page("job_set", page.title, data, tab=page.path)


def _bulk(page: SetPage, request: PageRequest) -> Bulk:
    actions = {verb: f"jobs.{verb}" for verb in page.verbs}
    return Bulk(page.kind(request.installation), page.path, page.title, actions, tab=page.path)


def ask(page: SetPage, request: PageRequest) -> Page:
    """Count all or matching jobs and ask for confirmation."""
    return _bulk(page, request).ask(request)


def all_jobs(page: SetPage, name: str, request: PageRequest) -> Done:
    """Act on the counted jobs."""
    verb = VERBS[name]
    return _bulk(page, request).act(request, name, verb.done, verb.every)


def selected(page: SetPage, name: str, request: PageRequest) -> Done:
    """Act on the selected jobs."""
    jobs, verb = page.kind(request.installation), VERBS[name]
    outcome = Outcome()
    keys = request.selected("key")
    for key in keys:
        outcome.add(jobs.entry(key), verb.one)
    back = address(page.path, **fields_of(wanted(request)))
    return Done(back, outcome.message(verb.done), outcome.data())


def sure_of_chosen(title: str, request: PageRequest) -> Message:
    """Return the question before selected jobs are deleted."""
    count = len(request.selected("key"))
    return Message("bulk.confirm_delete_selected", place=request.t(title), number=count)


class Outcome:
    """The result of an action on several jobs."""

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

    def message(self, done: str) -> Message:
        message = with_gone(done, self.done, self.gone)
        if self.refused:
            message += Message("done.refused_because", count=len(self.refused), reason=self.refused[0])
        return message

    def data(self) -> dict[str, Any]:
        return {"done_to": self.done, "gone": self.gone, "refused": self.refused}


Handler: TypeAlias = "Callable[[PageRequest], Page | Done]"


def _routes(page: SetPage) -> Iterator[Route]:
    yield Route("GET", page.path, LOOK, partial(show, page))
    yield Route("GET", f"{page.path}/all", LOOK, partial(ask, page))
    for name in page.verbs:
        yield Route("POST", f"{page.path}/all/{name}", f"jobs.{name}", partial(all_jobs, page, name))
        asks = partial(sure_of_chosen, page.title) if name == "delete" else None
        yield Route("POST", f"{page.path}/selected/{name}", f"job.{name}", partial(selected, page, name), asks=asks)


ROUTES = [route for page in SET_PAGES for route in _routes(page)]
