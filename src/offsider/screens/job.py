"""The page of a job: what happened to it, why it does not run, and what can be done with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.config.addresses import FLEET, ScreenPath, class_path, job_path, jobs_path, with_fields
from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebDone,
    WebFacts,
    WebField,
    WebForm,
    WebNote,
    WebPage,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.clock import END_OF_TIME
from offsider.core.compression import COMPRESSED
from offsider.core.controls import class_of
from offsider.core.errors import CannotCancel, MalformedPayload, OffsiderError, RedisRefused, UnknownSubject
from offsider.core.segments import segment
from offsider.core.wording import duration
from offsider.inspector import JobRecord, Quarantine, SetEntry
from offsider.inspector.job_record import ENCRYPTED
from offsider.inspector.search import BUSY, HELD, QUEUE, place_of
from offsider.inspector.why import ITERATES, judge, read, read_around
from offsider.jobs.clients import pushing_with
from offsider.jobs.steps import signal
from offsider.screens.counters import ruby_processes
from offsider.screens.errors import BadRequest, NotFound
from offsider.screens.job_actions import ACTIONS
from offsider.screens.job_lookup import JobLocation, find, find_by_jid
from offsider.screens.plain import LINE_LETTERS, MAX_LETTERS, cell, cut, moment
from offsider.screens.redaction import HIDDEN, Redact, Redacted, without_copies
from offsider.screens.shown_job import MAX_ON_PAGES, redacted_job, shown, start_of
from offsider.screens.tabs import job_facts

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.config.web_tab import Block, WebRequest
    from offsider.inspector.why import Evidence, Reason

#: Maximum characters for "show all".
_MAX_IN_ALL = 8_000_000
_MAX_FIELDS = 200
_LONGEST_DELAY_MINUTES = 5_256_000  # ten years
#: Payload fields with their own row.
_SHOWN_BY_NAME = frozenset(
    {
        *("class", "args", "kwargs", "jid", "queue", "tags", "retry_count", "correlation_id"),
        *("created_at", "enqueued_at", "failed_at", "retried_at", "error_class", "error_message", "error_backtrace"),
        *("expires_in", "expiry", "edited_from"),
    }
)
#: Payload fields that describe one job and its runs; an edited copy has none of them.
_OF_ONE_JOB = frozenset(
    {
        *("jid", "at", "bid", "created_at", "enqueued_at", "failed_at", "retried_at", "retry_count", "expiry"),
        *("error_class", "error_message", "error_backtrace", "interrupted_count", "rescheduled_count", "overrated"),
        *("stranded_at", "resumed_at", "unique_digest", "unique_args", "lock_args", "display_args", COMPRESSED),
    }
)
#: What is possible only with one job: its form fields.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "reschedule": ("at", "minutes"),
    "edit": ("args", "kwargs"),
    "signal": ("name", "value"),
    "cancel": (),
}
VERBS = (*ACTIONS, *FIELDS)
_ONE_BY_ONE = {
    BUSY: ["cancel"],
    "retry": ["reschedule", "edit"],
    "schedule": ["reschedule", "signal"],
    "dead": ["edit"],
}
_CANCELED = "Canceling the run. It ends within two seconds, unless it is in a system call or in C code."


# ------------------------------------------------------------------------------------- looking


def details(request: WebRequest, place: JobLocation, *, every: bool = False) -> dict[str, Any]:
    """Return all data about a stored job, as JSON values.

    Args:
        every: do not cut long texts.
    """
    server, redact, record = request.installation, request.redact, place.record
    redacted = redacted_job(record, redact)
    payload = _payload(redact, record, redacted)
    most = _MAX_IN_ALL if every else MAX_ON_PAGES
    short = shown(record, redacted, where=place.where, key=place.key)
    at = moment(place.at)
    texts = {
        "args": start_of(redacted.args, most + 1, pretty=True),
        "kwargs": start_of(redacted.kwargs, most + 1, pretty=True) if redacted.kwargs else "",
        "backtrace": "\n".join(redacted.value([*record.error_backtrace])),
        "error_message": redacted.message(record.error_message),
    }
    if record.malformed:
        texts["args"] = "".join(map(str, redacted.args))
    seen = read_around(server, place.where, place.key, record)
    attempts = [*_attempts(seen, redacted)]
    path, verbs = short["path"], verbs_of(place)
    can_edit = "edit" in verbs and not _not_editable(record, redacted)
    return short | {
        "stored_name": record.name,
        "class_path": class_path(short["name"]),
        "at": at,
        "at_input": "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M}",
        "position": record.position if place.where.startswith(QUEUE) else None,
        "latency_seconds": record.latency_seconds,
        **{name: cut(text, most) for name, text in texts.items()},
        "all_path": with_fields(path, all="1"),
        "cut": any(len(text) > most for text in texts.values()),
        "fields": [*_fields(payload or {})],
        "context": [{"name": name, "value": _text(redacted.value(value))} for name, value in record.context.items()],
        "running": _running(place),
        "attempts": attempts,
        "reasons": [_reason(one, seen, redacted, redact) for one in judge(seen)],
        "stacks": [sample._asdict() for sample in seen.stacks],
        "timeline": [*_timeline(record, redacted, place, attempts)],
        "edited_from": cut(str(record["edited_from"] or ""), LINE_LETTERS),
        "edited_from_path": job_path(str(record["edited_from"])) if record["edited_from"] else "",
        "code": "" if redacted.changed or record.malformed else cut(as_code(record), MAX_ON_PAGES),
        "ruby_processes": ruby_processes(server) if record.error_class and not attempts else 0,
        "same_class": [*_same(**{"class": record.display_class})],
        "same_error": [*_same(error=record.error_class)],
        "can_edit": can_edit,
        "waits_for": seen.steps.waits_for,
        "actions": {verb: ScreenPath(f"{path}/{verb}") for verb in verbs if verb != "edit" or can_edit},
        "buttons": [cell(_button(verb, path, short)) for verb in verbs if not FIELDS.get(verb)],
        "facts": [*_steps(seen, redacted), *job_facts(server, payload)],
    }


def _payload(redact: Redact | None, record: JobRecord, redacted: Redacted) -> dict[str, Any] | None:
    """Return the redacted payload; None for bytes that are not a job."""
    if record.payload is None:
        return None
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


def _attempts(seen: Evidence, redacted: Redacted) -> Iterator[dict[str, Any]]:
    for attempt in seen.attempts:
        yield {
            "number": attempt.number,
            "at": moment(attempt.at),
            "host": cut(attempt.host, MAX_LETTERS),
            "duration_seconds": moment(attempt.duration_seconds),
            "error_class": cut(attempt.error_class, MAX_LETTERS),
            "error_message": cut(redacted.message(attempt.error_message), MAX_LETTERS),
            "release": cut(attempt.release, LINE_LETTERS),
            "frame": cut(attempt.frame.name, LINE_LETTERS),
            "log": [cut(f"{line.level} {redacted.message(line.message)}", MAX_LETTERS) for line in attempt.log],
        }


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


def _reason(reason: Reason, seen: Evidence, redacted: Redacted, redact: Redact | None) -> dict[str, Any]:
    """Return a reason. The name of a group with a key is made of arguments, so it is hidden with them."""
    named = {seen.held_in, *(control.subject for control in seen.controls)}
    hidden = [name for name in named if redact is not None and class_of(name) != name]
    text = reason.text
    for name in hidden:
        text = text.replace(name, f"{class_of(name)} {HIDDEN}")
    steps = [step._asdict() | {"line": str(step)} for step in reason.steps if not hidden]
    # A cursor may be made of arguments.
    shown_text = redacted.message(text) if reason.kind == ITERATES else redacted.value(text)
    return {"kind": reason.kind, "text": shown_text, "tone": reason.tone, "steps": steps}


def _steps(seen: Evidence, redacted: Redacted) -> Iterator[dict[str, Any]]:
    """Yield the results of finished steps. They may be made of arguments."""
    for name, step in seen.steps.steps.items():
        text = f"{cut(_text(step.value), LINE_LETTERS)} ({step.function}, {duration(step.seconds)})"
        yield {"name": f"Step {name}", "cell": cell(redacted.message(text))}


def _same(**asked: str) -> Iterator[dict[str, str]]:
    """Return links to jobs with the same value in each set."""
    if all(0 < len(text) <= LINE_LETTERS for text in asked.values()):
        for where, title in (("retry", "Retries"), ("schedule", "Scheduled"), ("dead", "Dead")):
            yield {"title": title, "path": jobs_path(where, **asked)}


def _timeline(
    record: JobRecord, redacted: Redacted, place: JobLocation, attempts: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield what happened to the job, the earliest first, and what will happen."""
    origin = {"by": record.caller, "for": record.user, "release": record["app_version"]}
    pushed = [f"{word} {redacted.value(str(value))}" for word, value in origin.items() if value]
    found = [_event(record.created_at, "Pushed", cut(", ".join(pushed), LINE_LETTERS))]
    if record.enqueued_at is not None and record.enqueued_at != record.created_at:
        found.append(_event(record.enqueued_at, "Put into its queue", cut(record.queue, LINE_LETTERS)))
    if record.failed_at is not None and not any(attempt["number"] == 1 for attempt in attempts):
        found.append(_event(record.failed_at, "Failed for the first time", tone="bad"))
    for attempt in attempts:
        error = f"{attempt['error_class']}: {attempt['error_message']}" if attempt["error_message"] else ""
        release = f", release {attempt['release']}" if attempt["release"] else ""
        text = f"{error or attempt['error_class']} ({attempt['host']}{release})"
        event = _event(attempt["at"], f"Attempt {attempt['number']} failed", cut(text, MAX_LETTERS), "bad")
        found.append(event | {"log": attempt["log"], "frame": attempt["frame"]})
    if place.work is not None:
        found.append(_event(place.work.run_at, "Started", f"in {place.work.process}", "good"))
    if place.at is not None:
        title, tone = _LAST.get(place.where, ("Moved to the quarantine", ""))
        found.append(_event(place.at, title, tone=tone))
    yield from sorted((event for event in found if event["at"] is not None), key=lambda event: event["at"])


_LAST = {"retry": ("Next retry", "warn"), "schedule": ("Due", "info"), "dead": ("Died", "bad")}


def _event(at: float | None, title: str, text: str = "", tone: str = "") -> dict[str, Any]:
    return {"at": moment(at), "title": title, "text": text, "tone": tone, "log": [], "frame": ""}


def as_code(record: JobRecord) -> str:
    """Return Python code that pushes a job with the same arguments."""
    arguments = [*map(repr, record.args), *(f"{name}={value!r}" for name, value in record.kwargs.items())]
    name = record.name
    if all(part.isidentifier() for part in name.split(".")) and all(map(str.isidentifier, record.kwargs)):
        using = f".using(queue={record.queue!r})" if record.queue not in {"", "default"} else ""
        return f"{name.rpartition('.')[2]}{using}.enqueue({', '.join(arguments)})"
    payload = {"class": name, "args": record.args, **({"kwargs": record.kwargs} if record.kwargs else {})}
    return f"Client().push({payload | {'queue': record.queue}!r})"


# ------------------------------------------------------------------------------------- actions


def verbs_of(place: JobLocation) -> list[str]:
    """Return the actions that are possible with a job where it is."""
    if place.where.startswith(HELD):  # its address would have the name of the list, which may be an argument
        return []
    return [*(name for name, each in ACTIONS.items() if each.fits(place.where)), *_ONE_BY_ONE.get(place.where, ())]


def act(request: WebRequest, name: str, place: JobLocation) -> WebDone:
    """Do an action on a job.

    Raises:
        NotFound: the job has moved.
        BadRequest: the action is not possible here.
    """
    if name not in verbs_of(place):
        raise BadRequest("job.cannot", where=cut(place.where))
    if name in FIELDS:
        own = {"reschedule": _reschedule, "edit": _edit, "signal": _signal, "cancel": _cancel}
        return own[name](request, place)
    try:
        done = ACTIONS[name].one(_place(request.installation, place), place.record)
    except (MalformedPayload, RedisRefused) as error:
        raise BadRequest(str(error)) from error
    if not done:
        raise NotFound("job.gone")
    return WebDone(f"{ACTIONS[name].done} 1 job.", list_of(place.where), {"jid": place.record.jid})


def list_of(where: str) -> str:
    """Return the address of the list that has the jobs of a place."""
    return FLEET if where == BUSY else jobs_path(segment(where))


def _place(server: Installation, place: JobLocation) -> Any:
    return place_of(server, place.where)


def _cancel(_: WebRequest, place: JobLocation) -> WebDone:
    if place.work is None:
        raise NotFound("job.gone")
    try:
        place.work.cancel()
    except CannotCancel as error:
        raise BadRequest(str(error)) from error
    return WebDone(_CANCELED, job_path(place.record.jid), {"jid": place.record.jid})


def _reschedule(request: WebRequest, place: JobLocation) -> WebDone:
    """Reschedule a job: ``at`` a time (UTC, ``2026-11-21T15:00``), or in ``minutes``."""
    at = _time(request)
    if not cast("SetEntry", place.record).reschedule(at):
        raise NotFound("job.gone")
    return WebDone("Rescheduled 1 job.", list_of(place.where), {"jid": place.record.jid, "at": at})


def _signal(request: WebRequest, place: JobLocation) -> WebDone:
    """Give a job a signal that it waits for: its name, and a value as JSON."""
    name, jid = request.text("name"), place.record.jid
    if not name:
        raise BadRequest("Give the name of the signal.")
    try:
        value: object = json.loads(request.text("value", most=MAX_ON_PAGES) or "null")
    except (ValueError, RecursionError) as error:
        raise BadRequest('The value of a signal is JSON, such as 7 or "paid".') from error
    with pushing_with(Client.of(request.installation)):
        if not signal(jid, name, value):
            raise BadRequest("The job has had this signal, and the first one counts.")
    return WebDone("Sent the signal.", job_path(jid), {"jid": jid})


def _time(request: WebRequest) -> float:
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


def _edit(request: WebRequest, place: JobLocation) -> WebDone:
    """Push the job again with other arguments, as a new job; the old one moves to the quarantine first."""
    record, server = place.record, request.installation
    if reason := _not_editable(record, redacted_job(record, request.redact)):
        raise BadRequest(reason)
    args, kwargs = _json(request, "args", list), _json(request, "kwargs", dict)
    kept = {name: value for name, value in (record.payload or {}).items() if name not in _OF_ONE_JOB}
    edited = kept | {"args": args, "kwargs": kwargs, "edited_from": record.jid}
    if not kwargs:
        del edited["kwargs"]
    if not _place(server, place).quarantine(record):
        raise NotFound("job.gone")
    try:
        jid = Client(server).push(edited)
        if not jid:
            raise BadRequest("Client middleware canceled the push, so nothing has changed.")
    except OffsiderError as error:
        old = Quarantine(server).find_job(record.jid)
        if old is not None:
            Quarantine(server).restore(old)
        raise BadRequest(str(error)) from error
    text = f"Pushed as the job {jid} with these arguments. The job {record.jid} is in quarantine."
    return WebDone(text, job_path(str(jid)), {"jid": str(jid), "edited_from": record.jid})


def _not_editable(record: JobRecord, redacted: Redacted) -> str:
    """Return why the arguments cannot be edited; empty if they can."""
    if redacted.changed:
        return "The arguments of this job are hidden, so they cannot be edited."
    if record.malformed or record.display_args != record.args or ENCRYPTED in record.display_args:
        return "The arguments of this job are wrapped or encrypted, so they cannot be edited."
    if record.unlisted_bytes or len(record.raw) > MAX_ON_PAGES:
        return "The arguments of this job are too large to be edited."
    return ""


def _json(request: WebRequest, name: str, kind: type[Any]) -> Any:
    text = request.text(name, most=MAX_ON_PAGES) or ("" if kind is list else "{}")
    what = "list" if kind is list else "object"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{name}: expected a JSON {what}: {error}") from error
    if not isinstance(value, kind):
        raise BadRequest(f"{name}: expected a JSON {what}")
    return value


# ------------------------------------------------------------------------------------- the terminal


def show(request: WebRequest) -> WebPage | None:
    """Show a job by its id, wherever it is."""
    jid = request.path("jid")
    place, _ = find_by_jid(request.installation, jid)
    if place is None:
        seen = read(jid, request.installation)
        notes = [WebNote(one.text, one.tone) for one in judge(seen)]
        return WebPage("Job", notes, subject=jid) if seen.is_found else None
    data = details(request, place)
    facts: dict[str, Cell] = {"Class": data["name"], "JID": jid, "Place": data["where"], "Queue": data["queue"]}
    facts |= {fact["name"]: fact["cell"].get("text", "") for fact in data["facts"]}
    facts |= {"Arguments": data["args"], "Keyword arguments": data["kwargs"], "Copy as code": data["code"]}
    facts |= {each["name"]: each["value"] for each in (*data["context"], *data["fields"])}
    blocks: list[Block] = [
        WebNote(" ".join((one["text"], *(step["line"] for step in one["steps"]))), one["tone"])
        for one in data["reasons"]
    ]
    rows: list[list[Cell]] = [
        [WebTime(event["at"]), WebBadge(event["title"], event["tone"]), event["text"]] for event in data["timeline"]
    ]
    stacks = {f"{sample['at'] - sample['run_at']:.0f} s": sample["stack"] for sample in data["stacks"]}
    blocks += [
        WebTable("Timeline", ("When", "What", ""), rows, "Nothing is recorded."),
        WebFacts("Job", {name: value for name, value in facts.items() if value}),
        *([WebFacts("Stack by time since the start", stacks)] if stacks else ()),
        WebButtons([_button(verb, job_path(jid), data) for verb in data["actions"] if not FIELDS.get(verb)]),
    ]
    if data["can_edit"]:
        fields = (WebField("args", "Arguments (JSON)", data["args"]), WebField("kwargs", "Keyword arguments (JSON)"))
        blocks.append(WebForm("Retry with edited arguments", fields, [WebButton("Push", f"{job_path(jid)}/edit")]))
    return WebPage("Job", blocks, subject=jid)


def _button(verb: str, path: str, data: Mapping[str, Any]) -> WebButton:
    question = {"cancel": "Cancel this run?", "delete": f"Permanently delete job {data['name']} ({data['jid']})?"}
    action = ACTIONS.get(verb)
    label, danger = ("Cancel this run", False) if action is None else (action.label, action.danger)
    return WebButton(label, f"{path}/{verb}", confirm=question.get(verb, ""), danger=danger)


def _by_key(request: WebRequest) -> JobLocation:
    place = find(request.installation, request.path("where"), request.path("key"))
    if place is None:
        raise NotFound("job.gone")
    return place


def _by_jid(request: WebRequest) -> JobLocation:
    jid = request.path("jid")
    place, _ = find_by_jid(request.installation, jid)
    if place is None:
        raise UnknownSubject(f"there is no job {jid}: see offsider why {jid}")
    return place


def _acting(found: Callable[[WebRequest], JobLocation], name: str) -> Callable[[WebRequest], WebDone]:
    return lambda request: act(request, name, found(request))


_PATHS = {"/{jid}": _by_jid, "/{where}/{key}": _by_key}
TAB = WebTab(
    "job",
    "Job",
    "/job",
    routes={"": lambda _: WebPage("Job", [WebNote("Name a job: offsider show job JID")]), "/{jid}": show},
    actions={f"{path}/{name}": _acting(found, name) for path, found in _PATHS.items() for name in VERBS},
    fields={f"{path}/{name}": fields for path in _PATHS for name, fields in FIELDS.items()},
)
