"""The page of a job: its data and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

from offsider.config.installation import Installation
from offsider.core.clock import END_OF_TIME
from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.inspector import Attempts, JobRecord, JobSet, Quarantine, Queue, SetEntry
from offsider.inspector.scan import PAGE_BUDGET_MS
from offsider.web.bulk import Verb
from offsider.web.counters import ruby_processes
from offsider.web.display import LINE_LETTERS, MAX_LETTERS, cut, iso
from offsider.web.extension_tabs import job_facts
from offsider.web.filters import address
from offsider.web.job_lookup import (
    BUSY,
    QUARANTINE,
    QUEUE,
    JobLocation,
    find,
    find_by_jid,
    jid_of,
)
from offsider.web.page_request import PageRequest
from offsider.web.pages import job_sets, quarantine, queues
from offsider.web.pages.job_sets import DEAD, SET_PAGES
from offsider.web.pages.queues import queue_path
from offsider.web.pages.search import results
from offsider.web.redaction import Redacted, without_copies
from offsider.web.results import ActionResult, BadRequest, Message, NotFound, Page
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import MAX_ON_PAGES, moment, redacted_job, shown, start_of

#: Maximum characters for "show all".
_MAX_IN_ALL = 8_000_000
_MAX_FIELDS = 200
_LONGEST_DELAY_MINUTES = 5_256_000  # ten years
_PAGE_OF = {page.kind.name: page for page in SET_PAGES}
_MESSAGES = {name: verb.done for name, verb in (job_sets.VERBS | quarantine.VERBS).items()}
#: Payload fields with their own row.
_SHOWN_BY_NAME = frozenset(
    {
        *("class", "args", "kwargs", "jid", "queue", "tags", "retry_count", "correlation_id"),
        *("created_at", "enqueued_at", "failed_at", "retried_at", "error_class", "error_message", "error_backtrace"),
        *("expires_in", "expiry"),
    }
)


def show(request: PageRequest) -> Page:
    """Show a job by location and key, or by id if it has moved."""
    where, key = request.path("where"), request.path("key")
    place = find(request.installation, where, key)
    return show_by_id(request, jid_of(where, key)) if place is None else _page(request, place)


def find_by_id(request: PageRequest) -> Page:
    """Show a job by its id, wherever it is."""
    return show_by_id(request, request.path("jid"))


def show_by_id(request: PageRequest, jid: str) -> Page:
    """Show a job by its id, or the progress of the search if it takes longer than a page may.

    Raises:
        NotFound: the job does not exist.
    """
    place, chunk = find_by_jid(request.installation, jid, PAGE_BUDGET_MS)
    if place is not None:
        return _page(request, place)
    if chunk.cursor:
        return results(request, jid, chunk)
    raise NotFound("job.not_found")


def _page(request: PageRequest, place: JobLocation) -> Page:
    record = place.record
    redacted = redacted_job(record, request.options.redact)
    args, kwargs = redacted.args, redacted.kwargs
    payload = _payload(request, record, redacted)
    most = _MAX_IN_ALL if request.choice("all", ("0", "1"), "0") == "1" else MAX_ON_PAGES
    short = shown(record, redacted, where=place.where, key=place.key)
    at = moment(place.at)
    texts = {
        "args": "".join(map(str, args)) if record.malformed else start_of(args, most + 1, pretty=True),
        "kwargs": start_of(kwargs, most + 1, pretty=True) if kwargs else "",
        "backtrace": "\n".join(redacted.value([*record.error_backtrace])),
        "error_message": redacted.message(record.error_message),
    }
    attempts = [*_attempts(request, record.jid, redacted)]
    verbs = [*_actions(request.installation, place), *(["reschedule"] if _reschedulable(place) else [])]
    data: dict[str, Any] = short | {
        "stored_name": record.name,
        "at": at,
        "at_input": iso(at)[:16],
        "position": record.position if place.where.startswith(QUEUE) else None,
        "latency_seconds": record.latency_seconds,
        **{name: cut(text, most) for name, text in texts.items()},
        "cut": any(len(text) > most for text in texts.values()),
        "all_path": address(short["path"], all="1"),
        "fields": [*_fields(payload or {})],
        "context": [{"name": name, "value": _text(redacted.value(value))} for name, value in record.context.items()],
        "running": _running(place),
        "attempts": attempts,
        "ruby_processes": ruby_processes(request.installation) if record.error_class and not attempts else 0,
        "same_class": [*_same(request, name=record.display_class)],
        "same_error": [*_same(request, error=record.error_class)],
        "actions": {verb: f"{short['path']}/{verb}" for verb in verbs},
        "facts": job_facts(request.installation, payload),
    }
    return Page("job", "term.job", data, subject=record.display_class or record.jid, tab=_list_path(place.where))


def _attempts(request: PageRequest, jid: str, redacted: Redacted) -> Iterator[dict[str, Any]]:
    for attempt in Attempts.of(jid, request.installation) if jid else ():
        yield {
            "number": attempt.number,
            "at": moment(attempt.at),
            "host": cut(attempt.host, MAX_LETTERS),
            "duration_seconds": moment(attempt.duration_seconds),
            "error_class": cut(attempt.error_class, MAX_LETTERS),
            "error_message": cut(redacted.message(attempt.error_message), MAX_LETTERS),
        }


def _payload(request: PageRequest, record: JobRecord, redacted: Redacted) -> dict[str, Any] | None:
    """Return the redacted payload; None for bytes that are not a job."""
    if record.payload is None:
        return None
    redact = request.options.redact
    if redact is None:
        return dict(record.payload)
    known = {"class": record.payload.get("class"), "error_message": redacted.message(record.error_message)}
    # For a wrapped job, use the arguments that the hook has seen, without the wrapper.
    others = {name: value for name, value in record.payload.items() if name not in {"args", "kwargs"}}
    payload: dict[str, Any] = redacted.value(without_copies(redact, record.display_class, others))
    return payload | known | {"args": redacted.args, "kwargs": redacted.kwargs}


def _fields(payload: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Return the other fields of the payload."""
    for name, value in islice(payload.items(), _MAX_FIELDS):
        if name not in _SHOWN_BY_NAME and not name.startswith("meta."):
            yield {"name": cut(name), "value": _text(value)}


def _text(value: object) -> str:
    return cut(value if isinstance(value, str) else start_of(value, MAX_LETTERS + 1), MAX_LETTERS)


def _running(place: JobLocation) -> dict[str, Any] | None:
    work = place.work
    if work is None:
        return None
    return {
        "process": work.process,
        "thread": work.tid,
        "run_at": moment(work.run_at),
        "elapsed_seconds": work.elapsed_seconds,
    }


def _same(request: PageRequest, **asked: str) -> Iterator[dict[str, str]]:
    """Return links to jobs with the same value in each set."""
    if all(0 < len(text) <= LINE_LETTERS for text in asked.values()):
        for page in SET_PAGES:
            yield {"title": request.t(page.title), "path": address(page.path, **asked)}


def _actions(here: Installation, place: JobLocation) -> dict[str, Callable[[], bool]]:
    """Return the actions that are possible with a job where it is."""
    verbs: Mapping[str, Verb] = {}
    jobs: JobSet | Queue | Quarantine | None = None
    job: JobRecord | str = place.record
    if place.where in _PAGE_OF:
        page = _PAGE_OF[place.where]
        jobs, verbs = page.kind(here), {verb: job_sets.VERBS[verb] for verb in page.verbs}
    elif place.where.startswith(QUEUE):
        jobs, verbs = Queue(place.where.removeprefix(QUEUE), here), queues.VERBS
    elif place.where == QUARANTINE:
        jobs, job, verbs = Quarantine(here), place.key, quarantine.VERBS
    return {name: partial(verb.one, jobs, job) for name, verb in verbs.items()}


def _reschedulable(place: JobLocation | None) -> SetEntry | None:
    """Return the job as one whose time can be changed; None if it is in the dead set, or in no set."""
    if place is None or place.where == DEAD.kind.name or not isinstance(place.record, SetEntry):
        return None
    return place.record


def _list_path(where: str) -> str:
    if where in _PAGE_OF:
        return _PAGE_OF[where].path
    return {BUSY: "/busy", QUARANTINE: "/quarantine"}.get(where, "/queues")


def act(name: str, request: PageRequest) -> ActionResult:
    """Run an action on a job, and return to its list.

    Raises:
        NotFound: the job has moved.
        BadRequest: the action is not possible here.
    """
    where, key = request.path("where"), request.path("key")
    place = find(request.installation, where, key)
    if place is None:
        raise NotFound("job.gone")
    action = _actions(request.installation, place).get(name)
    if action is None:
        raise BadRequest("job.cannot", where=cut(where))
    try:
        done = action()
    except (MalformedPayload, RedisRefused) as error:
        raise BadRequest(str(error)) from error
    if not done:
        raise NotFound("job.gone")
    back = queue_path(where.removeprefix(QUEUE)) if where.startswith(QUEUE) else _list_path(where)
    return ActionResult(back, Message(_MESSAGES[name], count=1), {"jid": place.record.jid})


def _sure(request: PageRequest) -> Message | None:
    place = find(request.installation, request.path("where"), request.path("key"))
    if place is None:
        return None
    name, jid = cut(place.record.display_class), cut(place.record.jid)
    return Message("job.confirm_delete", name=name, jid=jid)


def reschedule(request: PageRequest) -> ActionResult:
    """Reschedule a job: ``at`` a time (UTC, ``2026-11-21T15:00``), or in ``minutes``.

    Raises:
        BadRequest: both are missing, or the time is invalid.
        NotFound: the job has left its set.
    """
    where, key = request.path("where"), request.path("key")
    entry = _reschedulable(find(request.installation, where, key))
    if entry is None:
        raise NotFound("job.not_reschedulable")
    at = _time(request)
    if not entry.reschedule(at):
        raise NotFound("job.gone")
    return ActionResult(_list_path(where), Message("done.rescheduled", count=1), {"jid": entry.jid, "at": at})


def _time(request: PageRequest) -> float:
    minutes = request.number("minutes", default=-1, lowest=0, highest=_LONGEST_DELAY_MINUTES)
    if minutes >= 0:
        return request.installation.config.clock.now() + minutes * 60
    try:
        at = datetime.fromisoformat(request.text("at", most=40))
    except ValueError as error:
        raise BadRequest("job.bad_time") from error
    moment_of = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not 0 <= moment_of < END_OF_TIME:
        raise BadRequest("job.bad_time")
    return moment_of


_ONE = "/job/{where}/{key}"
ROUTES = [
    Route("GET", "/job/{jid}", LOOK, find_by_id),
    Route("GET", _ONE, LOOK, show),
    Route("POST", f"{_ONE}/reschedule", "job.reschedule", reschedule, fields=("at", "minutes")),
    *(
        Route("POST", f"{_ONE}/{name}", f"job.{name}", partial(act, name), asks=_sure if name == "delete" else None)
        for name in _MESSAGES
    ),
]
