"""Bulk actions: count the matching jobs exactly, ask for confirmation, then change the counted jobs.

1. GET counts for half a second, stores the partial count, and shows the progress; the browser requests the next step.
2. When the count is complete, the page asks for confirmation and shows the number of jobs.
3. POST changes the counted jobs for two seconds. The script of the page, or a button, submits the next step.
4. The result page reports the number of jobs changed, refused, and changed by others since the count.

A client that POSTs without a count gets both steps in one request; without a filter it must send ``every=yes``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.inspector import Counted, JobFilter, JobSet, Quarantine, Queue
from offsider.web.csrf import is_foreign
from offsider.web.filters import FIELDS, address, fields_of, filter_data, labels, wanted
from offsider.web.page_request import EVERY, SELECTED, PageRequest
from offsider.web.results import ActionResult, BadRequest, Forbidden, Message, NotFound, Page, with_gone
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment

COUNT_MS = 500
ACT_MS = 2_000
_NAME_LETTERS = 32
#: Changes counted jobs for up to some milliseconds; None: all of them.
Act: TypeAlias = Callable[[Any, Counted, "float | None"], int]


@dataclass(frozen=True)
class Verb:
    """An action on jobs of a job set, a queue or the quarantine.

    Attributes:
        done: message id of the result, with a count.
        one: acts on one job of a place; returns False if the job has left it.
        every: acts on the counted jobs of a place.
    """

    done: str
    one: Callable[[Any, Any], bool]
    every: Act


@dataclass(frozen=True)
class BulkActions:
    """The actions on several jobs of a job set, a queue or the quarantine.

    Attributes:
        jobs: the job set, queue or quarantine.
        path: path of its page.
        title, subject: heading of its page.
        tab: the tab to highlight.
        verbs: the actions by name.
        find: returns a job by its key, as `Verb.one` expects it; None if it has left.
        actions: verb -> action name for the authorization hook, if it is not ``jobs.<verb>``.
        together: verbs that share one confirmation page.
    """

    jobs: JobSet | Queue | Quarantine
    path: str
    title: str
    tab: str
    verbs: Mapping[str, Verb]
    find: Callable[[str], Any]
    subject: str = ""
    actions: Mapping[str, str] = field(default_factory=dict[str, str])
    together: tuple[str, ...] = ("quarantine", "delete")

    def ask(self, request: PageRequest) -> Page:
        """Show the progress of the count, then the confirmation; during the action, a button for the next step."""
        asked = self._wanted(request)
        verb = request.choice("verb", tuple(self.verbs), next(iter(self.verbs)))
        offered = [each for each in self._beside(verb) if request.may(_action(each, self.actions))]
        if not offered:
            raise Forbidden("error.not_authorized", action=_action(verb, self.actions))
        name = request.text("counted", most=_NAME_LETTERS)
        if not name and is_foreign(request.http):  # another site must not start a scan
            raise NotFound("bulk.expired")
        counted = self._read(request, name) if name else None
        name = name or Counted.new_name()
        if counted is None or not counted.complete:
            counted = self._count(asked if counted is None else counted, COUNT_MS)
            self.jobs.keep(counted, name)
        total, fields = len(self.jobs), fields_of(asked)
        under_way = counted.under_way
        data = {
            "verb": "remove" if verb in self.together else verb,
            "place": self.subject or request.t(self.title),
            "path": self.path,
            "counted": name,
            "counted_at": moment(counted.at),
            "matched": len(counted) if counted.complete else None,
            "scanned": min(counted.scanned, total),
            "complete": counted.complete,
            "total": total,
            "more": "" if counted.complete else address(f"{self.path}/all", **fields, verb=verb, counted=name),
            "under_way": under_way,
            "done_to": counted.done,
            "labels": labels(request, asked),
            "filter": filter_data(self.path, asked),
            "actions": {each: f"{self.path}/all/{each}" for each in ([verb] if under_way else offered)},
            "back": address(self.path, **fields),
            "days": request.installation.config.worker.quarantine_days,
        }
        return Page("bulk", self.title, data, subject=self.subject, tab=self.tab, live=False)

    def act(self, request: PageRequest, verb: str) -> ActionResult:
        """Change the counted jobs; without a count, count the matching jobs first."""
        asked, name = self._wanted(request), request.text("counted", most=_NAME_LETTERS)
        if asked.empty and not name:
            request.check_every()
        counted = self._read(request, name) if name else self._count(asked, None)
        if not counted.complete:
            raise BadRequest("bulk.not_counted")
        if not counted.finished:  # a form submitted twice acts once
            self.verbs[verb].every(self.jobs, counted, ACT_MS if name else None)
        if name:
            self.jobs.keep(counted, name)
        message = Message(self.verbs[verb].done, count=counted.done)
        data: dict[str, Any] = {"done_to": counted.done, "refused": counted.refused, "finished": counted.finished}
        if not counted.finished:
            to = address(f"{self.path}/all", **fields_of(asked), verb=verb, counted=name)
            return ActionResult(to, message, data | {"counted": name})
        if counted.refused:
            message += Message("done.refused", count=counted.refused)
        if counted.changed:
            message += Message("done.changed_since", count=counted.changed)
        to = address(self.path, **fields_of(asked))
        if isinstance(self.jobs, Queue) and verb == "delete" and asked.empty:  # all jobs: the queue itself, too
            self.jobs.forget()
            to = self.tab
        return ActionResult(to, message, data | {"changed": counted.changed})

    def act_on_selected(self, request: PageRequest, verb: str) -> ActionResult:
        """Change the selected jobs."""
        done = gone = 0
        refused: list[str] = []
        # Highest positions of a queue first, so that a removal does not shift jobs that are still to be removed.
        for key in reversed(request.selected(SELECTED)):
            try:
                job = self.find(key)
                acted = job is not None and self.verbs[verb].one(self.jobs, job)
            except (MalformedPayload, RedisRefused) as error:
                refused.insert(0, str(error))
            else:
                done, gone = done + acted, gone + (not acted)
        message = with_gone(self.verbs[verb].done, done, gone)
        if refused:
            message += Message("done.refused_because", count=len(refused), reason=refused[0])
        data: dict[str, Any] = {"done_to": done, "gone": gone}
        if isinstance(self.jobs, JobSet):
            data["refused"] = refused
        return ActionResult(address(self.path, **fields_of(self._wanted(request))), message, data)

    def question(self, request: PageRequest) -> Message:
        """Return the question before selected jobs are deleted."""
        place = self.subject or request.t(self.title)
        return Message("bulk.confirm_delete_selected", place=place, number=len(request.selected(SELECTED)))

    def _wanted(self, request: PageRequest) -> JobFilter:
        return JobFilter() if isinstance(self.jobs, Quarantine) else wanted(request)

    def _count(self, asked: JobFilter | Counted, budget_ms: float | None) -> Counted:
        return self.jobs.count() if isinstance(self.jobs, Quarantine) else self.jobs.count(asked, budget_ms)

    def _beside(self, verb: str) -> tuple[str, ...]:
        return self.together if verb in self.together else (verb,)

    def _read(self, request: PageRequest, name: str) -> Counted:
        counted = self.jobs.counted(name, self._wanted(request))
        if counted is None:
            raise NotFound("bulk.expired")
        return counted


def bulk_routes(
    path: str,
    bulk: Callable[[PageRequest], BulkActions],
    verbs: Iterable[str],
    actions: Mapping[str, str] = MappingProxyType({}),
    fields: Collection[str] = FIELDS,
) -> Iterator[Route]:
    """Yield the routes of the actions on several jobs.

    Args:
        path: path of the page.
        bulk: returns the actions for a request.
        verbs: names of the actions.
        actions: as in `BulkActions`.
        fields: of the filter.
    """
    yield Route("GET", f"{path}/all", LOOK, lambda request: bulk(request).ask(request))
    for verb in verbs:
        asks = partial(_question, bulk) if verb == "delete" else None
        change = partial(_act, bulk, verb)
        yield Route("POST", f"{path}/all/{verb}", _action(verb, actions), change, fields=(*fields, "counted", EVERY))
        change = partial(_act_on_selected, bulk, verb)
        yield Route("POST", f"{path}/selected/{verb}", f"job.{verb}", change, asks=asks, fields=(SELECTED, *fields))


def _action(verb: str, actions: Mapping[str, str]) -> str:
    return actions.get(verb, f"jobs.{verb}")


def _act(bulk: Callable[[PageRequest], BulkActions], verb: str, request: PageRequest) -> ActionResult:
    return bulk(request).act(request, verb)


def _act_on_selected(bulk: Callable[[PageRequest], BulkActions], verb: str, request: PageRequest) -> ActionResult:
    return bulk(request).act_on_selected(request, verb)


def _question(bulk: Callable[[PageRequest], BulkActions], request: PageRequest) -> Message:
    return bulk(request).question(request)
