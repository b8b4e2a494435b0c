"""Bulk actions: count the matching jobs exactly, ask for confirmation, then change the counted jobs.

1. GET counts for half a second, stores the partial count, and shows the progress; the browser requests the next step.
2. When the count is complete, the page asks for confirmation and shows the number of jobs.
3. POST changes the counted jobs for two seconds. The script of the page, or a button, submits the next step.
4. The result page reports the number of jobs changed, refused, and changed by others since the count.

A client that POSTs without a count gets both steps in one request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from offsider.inspector import Counted, JobFilter, JobSet, Quarantine, Queue
from offsider.web.csrf import is_foreign
from offsider.web.filters import address, fields_of, filter_data, labels, wanted
from offsider.web.page_request import PageRequest
from offsider.web.results import Done, Forbidden, Message, NotFound, Page
from offsider.web.shown_job import moment

COUNT_MS = 500
ACT_MS = 2_000
_NAME_LETTERS = 32
#: Changes counted jobs for up to some milliseconds; None: all of them.
Act: TypeAlias = Callable[[Any, Counted, "float | None"], int]


@dataclass(frozen=True)
class Bulk:
    """The bulk actions of a job set, a queue or the quarantine.

    Attributes:
        jobs: the job set, queue or quarantine.
        path: path of its page.
        title, subject: heading of its page.
        tab: the tab to highlight.
        actions: verb -> action name for the authorization hook.
        together: verbs that share one confirmation page.
    """

    jobs: JobSet | Queue | Quarantine
    path: str
    title: str
    actions: Mapping[str, str]
    tab: str
    subject: str = ""
    together: tuple[str, ...] = ("quarantine", "delete")

    def ask(self, request: PageRequest) -> Page:
        """Show the progress of the count, then the confirmation; during the action, a button for the next step."""
        asked = self._wanted(request)
        verb = request.choice("verb", tuple(self.actions), next(iter(self.actions)))
        offered = [each for each in self._beside(verb) if request.may(self.actions[each])]
        if not offered:
            raise Forbidden("error.not_authorized", action=self.actions[verb])
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
            "labels": labels(request.installation, asked),
            "filter": filter_data(self.path, asked),
            "actions": {each: f"{self.path}/all/{each}" for each in ([verb] if under_way else offered)},
            "back": address(self.path, **fields),
            "days": request.installation.config.worker.quarantine_days,
        }
        return Page("bulk", self.title, data, subject=self.subject, tab=self.tab, live=False)

    def act(self, request: PageRequest, verb: str, done: str, every: Act) -> Done:
        """Change the counted jobs; without a count, count the matching jobs first."""
        asked, name = self._wanted(request), request.text("counted", most=_NAME_LETTERS)
        counted = self._read(request, name) if name else self._count(asked, None)
        if not counted.finished:  # a form submitted twice acts once
            every(self.jobs, counted, ACT_MS if name else None)
        if name:
            self.jobs.keep(counted, name)
        message = Message(done, count=counted.done)
        data: dict[str, Any] = {"done_to": counted.done, "refused": counted.refused, "finished": counted.finished}
        if not counted.finished:
            to = address(f"{self.path}/all", **fields_of(asked), verb=verb, counted=name)
            return Done(to, message, data | {"counted": name})
        if counted.refused:
            message += Message("done.refused", count=counted.refused)
        if counted.changed:
            message += Message("done.changed_since", count=counted.changed)
        return Done(address(self.path, **fields_of(asked)), message, data | {"changed": counted.changed})

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
