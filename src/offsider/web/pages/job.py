"""One job, wherever it is: all that is known of it, and what can be done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.inspector import Attempts, JobRecord, Quarantine
from offsider.web.answers import BadRequest, Done, NotFound, Page
from offsider.web.display import LINE_LETTERS, MOST_LETTERS, cut
from offsider.web.filters import BUDGET_MS, address
from offsider.web.pages.job_sets import DEAD, SET_PAGES, VERBS
from offsider.web.pages.queues import queue_path
from offsider.web.pages.search import results
from offsider.web.places import (
    BUSY,
    QUARANTINE,
    JobOfSet,
    JobPutAside,
    ParkedJob,
    Place,
    QueuedJob,
    RunningJob,
    find,
    find_by_jid,
    jid_of,
)
from offsider.web.redaction import without_copies
from offsider.web.routing import LOOK, Route
from offsider.web.ruby import ruby_processes
from offsider.web.shown_job import MOST_ON_PAGES, arguments, moment, shown, start_of
from offsider.web.tabs import job_facts
from offsider.web.words import Words

if TYPE_CHECKING:
    from offsider.web.visit import Visit
    from offsider.wiring.config import Config

#: What "show all" shows.
_MOST_IN_ALL = 8_000_000
_MOST_FIELDS = 200
_LAST_MOMENT = 253_402_300_799
_LONGEST_DELAY_MINUTES = 5_256_000  # ten years
_PAGE_OF = {page.kind.name: page for page in SET_PAGES}
_TOLD = {name: verb.done for name, verb in VERBS.items()} | {"restore": "Restored: {count}"}
_AT = "The time has to be written as 2026-11-21T15:00, in UTC."
_GONE = "Nothing was done: the job is not there any more. It has run, or somebody was quicker."
_FOR_GOOD = "Delete this job for good?"
_OF_QUEUES = ("quarantine", "delete")
_OF_THE_QUARANTINE = ("restore", "delete")
#: Keys of the payload that have a row of their own.
_SHOWN_BY_NAME = frozenset(
    {
        *("class", "args", "kwargs", "jid", "queue", "tags", "retry_count", "correlation_id"),
        *("created_at", "enqueued_at", "failed_at", "retried_at", "error_class", "error_message", "error_backtrace"),
    }
)


def show(visit: Visit) -> Page:
    """A job by its place and its key; by its id elsewhere, when it has moved on."""
    where, key = visit.path("where"), visit.path("key")
    place = find(visit.config, where, key)
    return show_by_id(visit, jid_of(where, key)) if place is None else _page(visit, place)


def find_by_id(visit: Visit) -> Page:
    """A job by its id, wherever it is."""
    return show_by_id(visit, visit.path("jid"))


def show_by_id(visit: Visit, jid: str) -> Page:
    """The page of a job by its id; of the search for it, when looking takes longer than a page may.

    Raises:
        NotFound: it is nowhere.
    """
    place, chunk = find_by_jid(visit.config, jid, BUDGET_MS)
    if place is not None:
        return _page(visit, place)
    if chunk.cursor:
        return results(visit, jid, chunk)
    raise NotFound("There is no such job any more: it has run, or was deleted.")


def _page(visit: Visit, place: Place) -> Page:
    record = place.record
    args, kwargs = arguments(record, visit.redacted)
    payload = _payload(visit, record, args, kwargs)
    most = _MOST_IN_ALL if visit.choice("all", ("0", "1"), "0") == "1" else MOST_ON_PAGES
    short = shown(record, visit.redacted, where=place.where, key=place.key)
    at = moment(_at(place))
    texts = {
        "args": "".join(map(str, args)) if record.malformed else start_of(args, most + 1, pretty=True),
        "kwargs": start_of(kwargs, most + 1, pretty=True) if kwargs else "",
        "backtrace": "\n".join(record.error_backtrace),
        "error_message": record.error_message,
    }
    attempts = [*_attempts(visit, record.jid)]
    data: dict[str, Any] = short | {
        "stored_name": record.name,
        "at": at,
        "at_input": "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M"),
        "position": place.position if isinstance(place, QueuedJob) else None,
        "latency_seconds": record.latency_seconds,
        **{name: cut(text, most) for name, text in texts.items()},
        "cut": any(len(text) > most for text in texts.values()),
        "all_path": address(short["path"], all="1"),
        "fields": [*_fields(payload or {})],
        "context": [{"name": name, "value": _text(value)} for name, value in record.context.items()],
        "running": _running(place),
        "attempts": attempts,
        "ruby_processes": ruby_processes(visit.config) if record.error_class and not attempts else 0,
        "same_class": [*_same(name=record.display_class)],
        "same_error": [*_same(error=record.error_class)],
        "actions": {verb: f"{short['path']}/{verb}" for verb in _verbs(place)},
        "facts": job_facts(visit.config, payload),
    }
    return Page("job", "Job", data, subject=record.display_class or record.jid, tab=_list_path(place.where))


def _at(place: Place) -> float | None:
    match place:
        case JobOfSet(record=entry):
            return entry.at
        case JobPutAside(job=job):
            return job.at
        case _:
            return None


def _attempts(visit: Visit, jid: str) -> Iterator[dict[str, Any]]:
    for attempt in Attempts.of(jid, visit.config) if jid else ():
        yield {
            "number": attempt.number,
            "at": moment(attempt.at),
            "host": cut(attempt.host, MOST_LETTERS),
            "duration_seconds": moment(attempt.duration_seconds),
            "error_class": cut(attempt.error_class, MOST_LETTERS),
            "error_message": cut(attempt.error_message, MOST_LETTERS),
        }


def _payload(visit: Visit, record: JobRecord, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The job as it is stored, as far as the visitor may see it; None for bytes that are none."""
    if record.payload is None:
        return None
    redact = visit.options.redact
    payload = without_copies(redact, record.display_class, record.payload)
    # Those of a wrapped job are the ones that the hook has seen, without their wrapper.
    return payload if redact is None else payload | {"args": args, "kwargs": kwargs}


def _fields(payload: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """What else the payload holds."""
    for name, value in islice(payload.items(), _MOST_FIELDS):
        if name not in _SHOWN_BY_NAME and not name.startswith("meta."):
            yield {"name": cut(name), "value": _text(value)}


def _text(value: object) -> str:
    return cut(value if isinstance(value, str) else start_of(value, MOST_LETTERS + 1), MOST_LETTERS)


def _running(place: Place) -> dict[str, Any] | None:
    if not isinstance(place, RunningJob):
        return None
    work = place.work
    return {
        "process": work.process,
        "thread": work.tid,
        "run_at": moment(work.run_at),
        "elapsed_seconds": work.elapsed_seconds,
    }


def _same(**asked: str) -> Iterator[dict[str, str]]:
    """Where else to look for what this job has in common with others."""
    if all(0 < len(text) <= LINE_LETTERS for text in asked.values()):
        for page in SET_PAGES:
            yield {"title": page.title, "path": address(page.path, **asked)}


def _verbs(place: Place) -> tuple[str, ...]:
    match place:
        case JobOfSet(where=where):
            return (*_PAGE_OF[where].verbs, *(("reschedule",) if where != DEAD.kind.name else ()))
        case QueuedJob():
            return _OF_QUEUES
        case JobPutAside():
            return _OF_THE_QUARANTINE
        case RunningJob() | ParkedJob():
            return ()


def _list_path(where: str) -> str:
    if where in _PAGE_OF:
        return _PAGE_OF[where].path
    return {BUSY: "/busy", QUARANTINE: "/quarantine"}.get(where, "/queues")


def act(name: str, visit: Visit) -> Done:
    """Do something to one job, and go back to where it was listed.

    Raises:
        NotFound: it has left its place meanwhile.
        BadRequest: it cannot be done here.
    """
    where, key = visit.path("where"), visit.path("key")
    place = find(visit.config, where, key)
    if place is None:
        raise NotFound(_GONE)
    if name not in _verbs(place):
        raise BadRequest("This cannot be done with a job in {where}.", where=cut(where))
    try:
        done = _done(visit.config, place, name)
    except (MalformedPayload, RedisRefused) as error:
        raise BadRequest(str(error)) from error
    if not done:
        raise NotFound(_GONE)
    back = queue_path(place.queue.name) if isinstance(place, QueuedJob) else _list_path(where)
    return Done(back, Words(_TOLD[name], count=1), {"jid": place.record.jid})


def _done(config: Config, place: Place, name: str) -> bool:
    if isinstance(place, JobOfSet):
        return VERBS[name].one(place.record)
    if isinstance(place, QueuedJob):
        return (place.queue.delete if name == "delete" else place.queue.quarantine)(place.record)
    if isinstance(place, JobPutAside):
        quarantine = Quarantine(config)
        return (quarantine.delete if name == "delete" else quarantine.restore)(place.key)
    return False


def reschedule(visit: Visit) -> Done:
    """Make a job due at another time: ``at`` (UTC, ``2026-11-21T15:00``), or in so many ``minutes``.

    Raises:
        BadRequest: neither was given, or it is no time.
        NotFound: it has left its set meanwhile.
    """
    where, key = visit.path("where"), visit.path("key")
    place = find(visit.config, where, key)
    if not isinstance(place, JobOfSet) or "reschedule" not in _verbs(place):
        raise NotFound("There is no such job whose time could be changed.")
    at = _time(visit)
    if not place.record.reschedule(at):
        raise NotFound(_GONE)
    return Done(_list_path(where), Words("Rescheduled: {count}", count=1), {"jid": place.record.jid, "at": at})


def _time(visit: Visit) -> float:
    minutes = visit.number("minutes", default=-1, lowest=0, highest=_LONGEST_DELAY_MINUTES)
    if minutes >= 0:
        return visit.config.clock.now() + minutes * 60
    try:
        at = datetime.fromisoformat(visit.text("at", most=40))
    except ValueError as error:
        raise BadRequest(_AT) from error
    moment_of = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not 0 <= moment_of <= _LAST_MOMENT:
        raise BadRequest(_AT)
    return moment_of


_ONE = "/job/{where}/{key}"
ROUTES = [
    Route("GET", "/job/{jid}", LOOK, find_by_id),
    Route("GET", _ONE, LOOK, show),
    Route("POST", f"{_ONE}/reschedule", "job.reschedule", reschedule),
    *(
        Route(
            "POST", f"{_ONE}/{name}", f"job.{name}", partial(act, name), confirm=_FOR_GOOD if name == "delete" else ""
        )
        for name in _TOLD
    ),
]
