"""The groups of errors; and one group: when, where and for whom it happens, with which arguments, and what to do."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from offsider.config.addresses import NOW, class_path, error_path, job_path, jobs_path, with_fields
from offsider.config.web_tab import (
    Block,
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebChart,
    WebFacts,
    WebField,
    WebForm,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebPager,
    WebSpark,
    WebTab,
    WebTable,
    WebText,
    WebTime,
)
from offsider.core.errors import UnknownSubject
from offsider.inspector import Attempts, Deploys, ErrorGroup, ErrorGroups, ErrorMinute
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.inspector.search import SETS
from offsider.screens.classes import ERRORS as PATH, percent, place_of_frame
from offsider.screens.counters import ruby_processes
from offsider.screens.plain import LINE_LETTERS, MAX_LETTERS, cut
from offsider.screens.redaction import HIDDEN, Redacted
from offsider.screens.request import PAGE
from offsider.screens.shown_job import listed_job, one_line
from offsider.screens.time_axis import TimeAxis

if TYPE_CHECKING:
    from offsider.config.web_tab import WebRequest

_MINUTE, _HOUR_SECONDS = 60, 3600
_HOURS: Mapping[str, int] = {"1h": 1, "3h": 3, "8h": 8}
_SPARKS, _MAX_LAST, _MAX_HOURS = 30, 5, 8_760
#: Jobs of a group whose arguments are compared, and the time to find them in each set.
_SAMPLE, _SAMPLE_MS = 200, 80.0
#: A value of an argument is shown if it has this share of the sample.
_COMMON = 0.1
_MAX_RELEASE_LETTERS = 200
#: Frames of Python, installed packages and offsider.
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]+|offsider)[/\\]|<frozen ")
_FRAME = re.compile(r'  File "(?P<file>[^"]*)"')


def index(request: WebRequest) -> WebPage:
    """Show the groups: the newest group first, or the one with the most jobs; an error does not move its group."""
    errors, order = ErrorGroups(request.installation), request.choice("order", ("first_seen", "jobs"), "first_seen")
    orders = {"first_seen": "Newest group first", "jobs": "Most jobs first"}
    links = [text if name == order else WebLink(text, with_fields(PATH, order=name)) for name, text in orders.items()]
    now = request.installation.config.clock.now()
    minutes: dict[str, list[ErrorMinute]] = {}
    for minute in errors.minutes_of_all(now - _HOUR_SECONDS, now):
        minutes.setdefault(minute.group, []).append(minute)
    groups = errors.page(request.rows().start, PAGE, order="jobs" if order == "jobs" else "first_seen")
    axis = TimeAxis.over(now - _HOUR_SECONDS, now, most=_SPARKS)
    rows = [_row(request, group, minutes.get(group.id, ()), axis, now) for group in groups]
    columns = ("Error", "Class", "Where", "Message", "Jobs", "Runs", "Dead", "First", "Last", "Last hour", "State")
    blocks: list[Block] = [WebFacts("Shown", {"Order": WebLinks(links)})]
    if ruby_processes(request.installation):
        blocks.append(WebNote("Errors of Sidekiq's Ruby processes are not counted here: see their jobs.", "info"))
    blocks.append(WebTable("Errors", columns, rows, "No errors.", WebPager(len(errors))))
    if groups:
        question = "Delete all groups of errors? Jobs are not affected."
        clear = WebButton("Delete all", f"{PATH}/clear", {"every": "yes"}, confirm=question, danger=True)
        blocks.append(WebButtons([clear]))
    return WebPage("Errors", blocks)


def _row(
    request: WebRequest, group: ErrorGroup, minutes: Iterable[ErrorMinute], axis: TimeAxis, now: float
) -> list[Cell]:
    return [
        WebLink(group.error_class or "Error", error_path(group.id)),
        WebLink(group.name, class_path(group.name)),
        place_of_frame(group.frame),
        cut(request.unquoted(group.message), MAX_LETTERS),
        *(group.jobs, group.attempts, group.deaths),
        *(WebTime(group.first_at), WebTime(group.last_at)),
        WebSpark(axis.sums((each.at, each.attempts) for each in minutes), "bad"),
        _state(group, now),
    ]


def _state(group: ErrorGroup, now: float) -> Cell:
    if group.returned_at is not None:
        return WebBadge("returned", "bad")
    if group.resolved_at is not None:
        return WebBadge("resolved", "good")
    return WebBadge("muted") if (group.muted_until or 0.0) > now else ""


# ------------------------------------------------------------------------------- one group


def show(request: WebRequest) -> WebPage | None:
    """Show one group; None if it does not exist."""
    errors = ErrorGroups(request.installation)
    group = errors.find(request.path("id"))
    if group is None:
        return None
    sample = _jobs_of(request, group)
    blocks: list[Block] = [
        *_notes(group, request.installation.config.clock.now()),
        WebFacts("Error", _facts(request, group)),
        _minutes(request, errors, group),
        *_traceback(request, group),
        _who(request, group),
        *_arguments(sample),
        *_last_jobs(request, sample),
        *_actions(group),
    ]
    return WebPage("Error", blocks, subject=cut(group.error_class))


def _notes(group: ErrorGroup, now: float) -> Iterator[Block]:
    if group.resolved_at is not None:
        yield WebNote("Resolved.", "good")
    if group.returned_at is not None:
        yield WebNote("Returned: it was resolved, or had not happened for a day.", "bad")
    if group.muted_until is not None and group.muted_until > now:
        yield WebNote(f"Muted until {time.strftime('%Y-%m-%d %H:%M', time.gmtime(group.muted_until))} UTC.", "info")


def _facts(request: WebRequest, group: ErrorGroup) -> dict[str, Cell]:
    filters = {"class": group.name, "error": group.id}
    return {
        "Class": WebLink(cut(group.name, MAX_LETTERS), class_path(group.name)),
        "Where": place_of_frame(group.frame),
        "Message": cut(request.unquoted(group.message), MAX_LETTERS),
        "Jobs": group.jobs,
        "Failed runs": group.attempts,
        "Dead": group.deaths,
        "Users": group.user_count,
        "First": WebTime(group.first_at),
        "First release": group.first_release,
        "Last": WebTime(group.last_at),
        "Last release": group.last_release,
        "Act on its jobs": WebLinks(
            [
                WebLink("to retry", jobs_path("retry", **filters)),
                WebLink("dead", jobs_path("dead", **filters)),
                WebLink("failed within 10 minutes", jobs_path("retry,dead", **filters, failed="10m")),
                WebLink("all", jobs_path("retry,dead", **filters)),
            ]
        ),
    }


def _minutes(request: WebRequest, errors: ErrorGroups, group: ErrorGroup) -> WebChart:
    """Return the failed runs by release."""
    period = request.choice("period", tuple(_HOURS), "1h")
    now = request.installation.config.clock.now()
    ends_at = now // _MINUTE * _MINUTE + _MINUTE
    axis = TimeAxis.over(ends_at - _HOURS[period] * _HOUR_SECONDS, ends_at)
    bars: dict[str, list[tuple[float, float]]] = {}
    for minute in errors.minutes(group.id, axis.starts_at, now):
        bars.setdefault(minute.release or "Failed", []).append((minute.at, minute.attempts))
    marks = [(mark.at, mark.label) for mark in Deploys(request.installation).marks(axis.starts_at, ends_at)]
    values = {name: axis.sums(counts) for name, counts in bars.items()} or {"Failed": axis.sums([])}
    title = f"Failed runs by release per {axis.step_name}"
    return WebChart(title, axis.starts_at, axis.step_seconds, values, marks)


def _traceback(request: WebRequest, group: ErrorGroup) -> Iterator[Block]:
    """Yield the traceback with the frames of libraries folded; its message is hidden with the arguments of jobs."""
    lines = group.traceback.splitlines()
    if request.unquoted("message") != "message":
        # A line of source code cannot be distinguished from one of a message.
        lines = [*filter(_FRAME.match, lines), f"{group.error_class}: {HIDDEN}"] if lines else []
    title, is_library = "Traceback", False
    parts: list[tuple[bool, str]] = []
    for line in lines:
        frame = _FRAME.match(line)
        is_library = _LIBRARY.search(frame["file"]) is not None if frame else is_library and line.startswith(" ")
        parts.append((is_library, line))
    for folded, part in groupby(parts, key=lambda each: each[0]):
        texts = [line for _, line in part]
        frames = sum(map(bool, map(_FRAME.match, texts)))
        yield WebText(title, "\n".join(texts), f"{frames} frames of libraries" if folded else "")
        title = ""


def _who(request: WebRequest, group: ErrorGroup) -> WebTable:
    facets = {
        "Release": group.releases,
        "Host": group.hosts,
        "Caller": group.callers,
        "Tenant": group.tenants,
        "User": group.users,
        "Message": group.messages,
    }
    rows: list[list[Cell]] = [
        [facet, value if facet in ("Release", "Host") else request.unquoted(value), hits, percent(hits, group.attempts)]
        for facet, values in facets.items()
        for value, hits in values.items()
    ]
    return WebTable("Who", ("What", "Value", "Failed runs", "Share"), rows)


def _jobs_of(request: WebRequest, group: ErrorGroup) -> list[tuple[JobRecord, Redacted]]:
    """Return some jobs of a group in the retry and dead sets, latest failure first, and what may be shown of them."""
    wanted, redact = JobFilter(name=group.name, group=group.id), request.redact
    found: list[JobRecord] = []
    for where in ("retry", "dead"):
        found += SETS[where](request.installation).scan(wanted, budget_ms=_SAMPLE_MS, most=_SAMPLE).entries
    found.sort(key=lambda job: job.retried_at or job.failed_at or 0.0, reverse=True)
    return [(job, listed_job(job, redact)) for job in found[:_SAMPLE]]


def _arguments(sample: Sequence[tuple[JobRecord, Redacted]]) -> Iterator[Block]:
    values: Counter[tuple[str, str]] = Counter()
    for _, redacted in sample:
        named = [(f"Argument {place}", value) for place, value in enumerate(redacted.args, 1)]
        values.update((name, cut(repr(value), LINE_LETTERS)) for name, value in (*named, *redacted.kwargs.items()))
    common = [
        (name, value, count)
        for (name, value), count in values.most_common()
        if count > 1 and count >= _COMMON * len(sample) and HIDDEN not in value
    ]
    rows: list[list[Cell]] = [[name, value, percent(count, len(sample))] for name, value, count in common]
    if rows:
        yield WebTable(f"Arguments of {len(sample)} jobs", ("Argument", "Value", "Share"), sorted(rows, key=str))


def _last_jobs(request: WebRequest, sample: Sequence[tuple[JobRecord, Redacted]]) -> Iterator[Block]:
    last = sample[:_MAX_LAST]
    rows: list[list[Cell]] = [
        [
            WebLink(job.jid, job_path(job.jid)) if job.jid else "",
            WebTime(job.retried_at or job.failed_at),
            one_line(job, redacted, MAX_LETTERS),
            redacted.message(job.error_message),
        ]
        for job, redacted in last
    ]
    if rows:
        yield WebTable("Last jobs", ("JID", "Failed", "Arguments", "Message"), rows)
    for job, redacted in last:
        attempt = next(iter(Attempts.of(job.jid, request.installation)), None) if job.jid else None
        lines = [f"{line.level} {redacted.message(line.message)}" for line in attempt.log] if attempt else []
        if lines:
            yield WebText("", "\n".join(lines), f"{len(lines)} log lines of {job.jid}")


def _actions(group: ErrorGroup) -> Iterator[Block]:
    path = error_path(group.id)
    release = WebField("release", "Release that resolves it")
    yield WebForm("Resolve", (release,), [WebButton("Resolve", f"{path}/resolve")])
    hours = WebField("hours", "Mute for hours", "24", is_number=True, required=True)
    yield WebForm("Mute", (hours,), [WebButton("Mute", f"{path}/mute")])
    question = "Delete this group until the error happens again? Its jobs are not affected."
    delete = WebButton("Delete", f"{path}/delete", confirm=question, danger=True)
    is_open = group.resolved_at is None and group.muted_until is None
    yield WebButtons([delete] if is_open else [WebButton("Reopen", f"{path}/reopen"), delete])


# ------------------------------------------------------------------------------- actions


def _resolve(request: WebRequest) -> str:
    errors, group_id = ErrorGroups(request.installation), request.path("id")
    release = request.text("release", most=_MAX_RELEASE_LETTERS)
    if not errors.resolve(group_id, release):
        raise _unknown(group_id)
    return f"Resolved: {group_id}" + (f" in {release}" if release else "")


def _mute(request: WebRequest) -> str:
    group_id, hours = request.path("id"), request.number("hours", default=None, highest=_MAX_HOURS)
    now = request.installation.config.clock.now()
    if not ErrorGroups(request.installation).mute(group_id, now + hours * _HOUR_SECONDS):
        raise _unknown(group_id)
    return f"Muted: {group_id}"


def _reopen(request: WebRequest) -> str:
    if not ErrorGroups(request.installation).reopen(request.path("id")):
        raise UnknownSubject(f"the error {request.path('id')} is neither resolved nor muted")
    return f"Reopened: {request.path('id')}"


def _delete(request: WebRequest) -> str:
    if not ErrorGroups(request.installation).delete(request.path("id")):
        raise _unknown(request.path("id"))
    return f"Deleted: {request.path('id')}"


def _clear(request: WebRequest) -> str:
    request.choice("every", ("yes",), "")  # raises without it: the request may have lost a filter
    return f"Deleted groups: {ErrorGroups(request.installation).clear()}"


def _unknown(group_id: str) -> UnknownSubject:
    return UnknownSubject(f"there is no error {group_id}: see offsider show errors")


TAB = WebTab(
    "errors",
    "Errors",
    PATH,
    within=NOW,
    routes={"": index, "/{id}": show},
    actions={
        "/clear": _clear,
        "/{id}/resolve": _resolve,
        "/{id}/mute": _mute,
        "/{id}/reopen": _reopen,
        "/{id}/delete": _delete,
    },
    fields={"/clear": ("every",), "/{id}/resolve": ("release",), "/{id}/mute": ("hours",)},
)
