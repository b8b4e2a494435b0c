"""The screen of jobs: where they are, those that match a filter, what they have in common, and actions on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from offsider.config.addresses import JOBS as PATH, queue_path, with_fields
from offsider.config.web_tab import (
    Block,
    Cell,
    WebButton,
    WebCount,
    WebDone,
    WebFilter,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebPager,
    WebScan,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.errors import InvalidOptions
from offsider.core.wording import counted as number_of, listed
from offsider.inspector import ErrorGroups, JobRecord, Quarantine, QuarantinedJob, Queue, Stats, find_tracked
from offsider.inspector.counted import OTHERS
from offsider.inspector.job_counts import JobCounts
from offsider.inspector.scan import PAGE_BUDGET_MS, PAGE_MATCHES
from offsider.inspector.search import (
    BUSY,
    HELD,
    HELD_LISTS,
    QUARANTINE,
    QUEUE,
    RUNNING,
    SETS,
    Found,
    place_names,
    place_of,
    search_places,
    sizes_of,
)
from offsider.screens import time_ranges
from offsider.screens.errors import BadRequest, NotFound
from offsider.screens.job_actions import (
    ACTIONS,
    act_on_counted,
    act_on_keys,
    key_of,
    places_for,
    result,
)
from offsider.screens.job_filters import (
    FIELDS,
    LABELS,
    ShownFilter,
    described,
    fields_of,
    places_wanted,
    wanted,
    written_places,
)
from offsider.screens.plain import LINE_LETTERS, MAX_LETTERS, cut
from offsider.screens.redaction import HIDDEN
from offsider.screens.request import PAGE
from offsider.screens.shown_job import MAX_TAGS, listed_job, one_line, path_of, shown_error

if TYPE_CHECKING:
    from offsider.config.web_tab import WebRequest

COUNT_MS = 500
ACT_MS = 2_000
#: A larger set is counted when the user asks for it.
MAX_COUNTED_UNASKED = 200_000
#: Jobs of a first step of an action, and the number of jobs from which on it is offered.
CANARY, _MIN_FOR_CANARY = 10, 20
_NAME_LETTERS, _CURSOR_LETTERS = 32, 500
_LARGE_BYTES = 100_000
_MAX_VALUES, _MAX_HOURS = 8, 24
_DAY_SECONDS = 86_400
_ORDERS = ("first", "last")
_TITLES = {"retry": "Retries", "schedule": "Scheduled", "dead": "Dead", QUARANTINE: "Quarantine", BUSY: "Running"}
_TIMES = {"retry": "Next retry", "schedule": "Due", "dead": "Died", QUARANTINE: "Quarantined"}
_BROKEN_DOWN = {"name": "class", "error": "error", "tenant": "tenant", "caller": "caller", "queue": "queue"}


def show(request: WebRequest) -> WebPage | None:
    """Show the places with their sizes; or, with a place or a filter, jobs."""
    where, asked = places_wanted(request), wanted(request)
    if not where and asked.empty:
        return WebPage("Jobs", [_places(request)], filter=WebFilter(LABELS))
    names = _named(request, where)
    fields = fields_of(asked) | ({"where": written_places(where)} if where else {})
    blocks = [*_notes(request, names, asked)]
    sizes = sizes_of(request.installation, names)
    is_first = request.number("page", default=1) == 1 and not request.text("cursor", most=_CURSOR_LETTERS)
    if is_first and any(size for name, size in sizes.items() if name != BUSY):
        blocks.append(_uncounted(sizes, fields))
    blocks.append(_listed(request, names, asked, fields))
    subject = ", ".join(map(_title, where))
    return WebPage("Jobs", blocks, subject=subject, filter=WebFilter(LABELS, values=fields))


def show_count(request: WebRequest) -> WebPage:
    """Show a step of a count, or what was counted, with the actions on it."""
    counts = _count(request)
    if not counts.complete:
        counts.count(COUNT_MS)
        counts.keep()
    return WebPage("Jobs", [_counted(request, counts)], subject=_about(counts))


# ------------------------------------------------------------------------------- the list


def _places(request: WebRequest) -> WebTable:
    stats = Stats.read(request.installation)
    rows: list[Sequence[Cell]] = [
        [WebLink("Running", with_fields(PATH, where=RUNNING)), stats.busy, None],
        [WebLink("Retries", with_fields(PATH, where="retry")), stats.retries, None],
        [WebLink("Scheduled", with_fields(PATH, where="schedule")), stats.scheduled, None],
        [WebLink("Dead", with_fields(PATH, where="dead")), stats.dead, None],
        [WebLink("Held", with_fields(PATH, where=HELD_LISTS)), stats.held_back, None],
        [WebLink("Quarantine", with_fields(PATH, where=QUARANTINE)), len(Quarantine(request.installation)), None],
    ]
    rows += [
        [WebLink(f"Queue {queue.name}", queue_path(queue.name)), queue.size, round(queue.latency_seconds, 2)]
        for queue in sorted(stats.queue_summaries, key=lambda queue: (-queue.size, queue.name))
    ]
    return WebTable("Jobs", ("Where", "Jobs", "Latency, s"), rows)


def _notes(request: WebRequest, names: Sequence[str], asked: ShownFilter) -> Iterator[Block]:
    info = find_tracked(asked.jid or asked.text, request.installation) if asked.jid or asked.text else None
    if info is not None:
        yield WebNote(f"{info.name} {info}", "info")
    group = ErrorGroups(request.installation).find(asked.group) if asked.group else None
    if group is not None:
        message = cut(request.unquoted(group.message))
        yield WebNote(f"{group.error_class}: {message} ({cut(group.name)})", "info")
    if len(names) == 1 and names[0] == QUARANTINE:
        days = request.installation.config.worker.quarantine_days
        yield WebNote(f"Jobs in quarantine do not run. They can be restored, and are deleted after {days} days.")


def _listed(request: WebRequest, names: Sequence[str], asked: ShownFilter, fields: Mapping[str, str]) -> WebTable:
    """Return one page of a place; or the jobs of one step of a search, if there is a filter or several places."""
    place = place_of(request.installation, names[0]) if len(names) == 1 else None
    order = request.choice("order", _ORDERS, "last" if names[:1] in (["dead"], [QUARANTINE]) else "first")
    kept = {} if request.text("order") == "" else {"order": order}
    pager: WebPager | WebScan
    if place is not None and asked.empty:
        records = place.page(request.rows().start, PAGE, newest_first=order == "last")
        jobs = [Found(names[0], record, place.key_of(record)) for record in records]
        pager = WebPager(len(place))
    else:
        cursor = request.text("cursor", most=_CURSOR_LETTERS)
        chunk = search_places(request.installation, names, asked, cursor, budget_ms=PAGE_BUDGET_MS, most=PAGE_MATCHES)
        jobs, pager = chunk.entries, WebScan(chunk.scanned, chunk.total, chunk.cursor)
        if len(names) == 1 and names[0] in SETS:
            jobs.sort(key=lambda job: job.record.score, reverse=order == "last")
    rows = [_row(request, job, names) for job in jobs]
    columns = [name for name in _columns(rows) if name in ("Class", "Arguments") or any(row.get(name) for row in rows)]
    other = with_fields(PATH, **{**fields, "order": _ORDERS[order == "first"]})
    sortable = [name for name in ("#", *_TIMES.values()) if place is not None and name in columns][:1]
    return WebTable(
        "Jobs",
        columns,
        [[row.get(name) for name in columns] for row in rows],
        "No jobs.",
        pager,
        keys=[key_of(job) for job in jobs],
        actions=_for_selected({job.where for job in jobs}, {**fields, **kept}),
        sort=dict.fromkeys(sortable, other),
    )


def _columns(rows: Iterable[Mapping[str, Cell]]) -> list[str]:
    return [*dict.fromkeys(name for row in rows for name in row)] or ["Class", "Arguments"]


def _row(request: WebRequest, found: Found, names: Sequence[str]) -> dict[str, Cell]:
    record, where = found.record, found.where
    redacted = listed_job(record, request.redact)
    error, size_bytes = shown_error(record, redacted), len(record.unwrapped)
    tags = [cut(redacted.value(tag)) for tag in islice(record.tags, MAX_TAGS)]
    position = None if record.position is None else record.position + 1
    row: dict[str, Cell] = {"Where": _title(where)} if len(names) > 1 else {"#": position}
    row[_TIMES.get(where, "Enqueued")] = WebTime(_time(record, where))
    row |= {
        "Class": WebLink(cut(record.display_class) or "Malformed", path_of(record, where, found.key)),
        "JID": cut(record.jid),
        "Arguments": _arguments(record, one_line(record, redacted, MAX_LETTERS)),
        "Error": "" if error is None else f"{error['class']}: {error['message']}".strip(": "),
        "Retries": record.retry_count,
        "Queue": WebLink(cut(record.queue), queue_path(record.queue)) if 0 < len(record.queue) <= 200 else None,
        "Tags": WebLinks(tags) if tags else None,
        "Tenant": cut(redacted.value(record.tenant)),
        "Size, kB": size_bytes // 1_000 if size_bytes > _LARGE_BYTES else None,
    }
    if isinstance(record, QuarantinedJob):
        row |= {"Was in": _title(record.where), "Kept until": WebTime(record.until)}
    if names == [where] and where.startswith(QUEUE):
        del row["Queue"]
    return row


def _time(record: JobRecord, where: str) -> float | None:
    if isinstance(record, QuarantinedJob):
        return record.at
    if where in SETS:
        return record.score
    return record.created_at if record.enqueued_at is None else record.enqueued_at


def _arguments(record: JobRecord, text: str) -> str:
    return f"compressed, {record.unlisted_bytes:,} bytes" if record.unlisted_bytes else text


def _for_selected(places: Iterable[str], fields: Mapping[str, str]) -> list[WebButton]:
    return [
        WebButton(
            action.label,
            with_fields(f"{PATH}/selected/{verb}", **fields),
            confirm=f"{action.label} {{number}} selected jobs?" if action.danger else "",
            danger=action.danger,
        )
        for verb, action in ACTIONS.items()
        if any(map(action.fits, places))
    ]


def _title(where: str) -> str:
    kind, _, name = where.partition(":")
    return _TITLES.get(where) or (f"queue {name}" if kind == "queue" else kind)


# ------------------------------------------------------------------------------- counts


def _count(request: WebRequest) -> JobCounts:
    """Return the requested count, or start one."""
    name = request.text("counted", most=_NAME_LETTERS)
    if name:
        counts = JobCounts.read(request.installation, name, partial(ShownFilter, redact=request.redact))
        if counts is None:
            raise NotFound("The count has expired: count again.")
        return counts
    if request.is_foreign:  # another site must not start a scan
        raise NotFound("The count has expired: count again.")
    where, asked = places_wanted(request), wanted(request)
    if not where and asked.empty:
        raise BadRequest("error.no_jobs_named")
    return JobCounts(request.installation, asked, _named(request, where), written_places(where))


def _named(request: WebRequest, where: Sequence[str]) -> list[str]:
    try:
        return place_names(request.installation, where)
    except InvalidOptions as error:
        raise BadRequest(str(error)) from error


def _uncounted(sizes: Mapping[str, int], fields: Mapping[str, str]) -> WebCount:
    """Return the block that starts a count."""
    total = sum(sizes.values())
    more = with_fields(f"{PATH}/count", **fields)
    return WebCount("All that match", 0, total, more, waits=total > MAX_COUNTED_UNASKED)


def _counted(request: WebRequest, counts: JobCounts) -> WebCount:
    stored, verb = counts.stored, counts.verb
    scanned = min(counts.scanned, stored)
    facts: dict[str, Cell] = {"Jobs": len(counts), "Counted": WebTime(counts.at)}
    facts.update(_breakdown(counts))
    if not counts.complete:
        more = with_fields(f"{PATH}/count", counted=counts.name)
        return WebCount("All that match", scanned, stored, more, facts)
    if not verb:
        most = request.number("most", default=0, lowest=0)
        return WebCount("All that match", stored, stored, "", facts, [*_for_counted(counts, most)])
    parts = [counts.counted[where] for where in places_for(counts, verb)]
    done, total, action = sum(each.done for each in parts), sum(map(len, parts)), ACTIONS[verb]
    facts[action.done] = f"{done:,} of {number_of(total, 'job')}"
    if all(each.finished for each in parts):
        return WebCount("All that match", stored, stored, "", facts)
    is_going_on = request.choice("verb", (verb, ""), "") == verb
    text = "Continue" if is_going_on else f"{action.label} the other {number_of(total - done, 'job')}"
    button = WebButton(text, f"{PATH}/{verb}", {"counted": counts.name}, danger=action.danger)
    return WebCount(
        "All that match", done, total, "", facts, [] if is_going_on else [button], doing=button if is_going_on else None
    )


def _for_counted(counts: JobCounts, most: int) -> Iterator[WebButton]:
    """Yield the actions on all counted jobs; before it, that on the first ones, by default for many retries."""
    for verb, action in ACTIONS.items():
        places = places_for(counts, verb)
        count = sum(len(counts.counted[where]) for where in places)
        if not count:
            continue
        path, fields, of = f"{PATH}/{verb}", {"counted": counts.name}, listed([*map(_title, places)])
        first = most or (CANARY if verb == "retry" and count > _MIN_FOR_CANARY else 0)
        for text, number, more in (
            *([(f"{first} first", min(first, count), {"most": str(first)})] if first else []),
            (number_of(count, "job"), count, {}),
        ):
            question = f"{action.label} {number_of(number, 'job')} of {of}?"
            yield WebButton(f"{action.label} {text}", path, fields | more, question, action.danger)


def _breakdown(counts: JobCounts) -> Iterator[tuple[str, Cell]]:
    """Yield the most frequent values of each field, with their exact numbers."""
    fields = {**fields_of(counts.wanted), "where": counts.where}
    if len(counts.places) > 1:
        sizes = Counter[str]()
        for where, counted in counts.counted.items():
            sizes[HELD_LISTS if where.startswith(HELD) else where] += len(counted)
        links = [
            WebLink(_title(where), with_fields(PATH, **{**fields, "where": written_places([where])}), size)
            for where, size in sizes.items()
            if size
        ]
        yield "Where", WebLinks(links)
    values = counts.values
    for name, field in _BROKEN_DOWN.items():
        found = values.get(name, Counter())
        if found and not (len(found) == 1 and ("" in found or field in fields)):
            yield LABELS[field].partition(" ")[0], WebLinks([*_links(found, fields, field)])
    died = _by_time(values.get("died", Counter()))
    if len(died) > 1:
        links = [
            WebLink(_short(times), with_fields(PATH, **{**fields, "died": time_ranges.written(times)}), count)
            for times, count in died.items()
        ]
        yield "Died on", WebLinks(links[-_MAX_HOURS:])


def _links(found: Counter[str], fields: Mapping[str, str], field: str) -> Iterator[WebLink | str]:
    shown = [(value, count) for value, count in found.most_common(_MAX_VALUES + 1) if value][:_MAX_VALUES]
    for value, count in shown:
        if len(value) > LINE_LETTERS or value in (HIDDEN, OTHERS):
            yield f"{cut(value, 60)} {count:,}"
        else:
            yield WebLink(value, with_fields(PATH, **{**fields, field: value}), count)
    rest = len([value for value in found if value]) - len(shown)
    if rest > 0:
        yield f"{rest:,} more"


def _by_time(hours: Counter[str]) -> dict[tuple[float, float], int]:
    """Return the number of deaths by hour; by day if there are many hours."""
    known = {float(hour): count for hour, count in hours.items() if hour not in ("", OTHERS)}
    length = 3_600 if len(known) <= _MAX_HOURS else _DAY_SECONDS
    found: Counter[float] = Counter()
    for hour, count in known.items():
        found[hour // length * length] += count
    return {(at, at + length): count for at, count in sorted(found.items())}


def _short(times: tuple[float, float]) -> str:
    at = datetime.fromtimestamp(times[0], UTC)
    return at.strftime("%Y-%m-%d" if times[1] - times[0] == _DAY_SECONDS else "%m-%d %H:00")


def _about(counts: JobCounts) -> str:
    filters = described(fields_of(counts.wanted))
    return (counts.where or "all places") + (f" ({filters})" if filters else "")


# ------------------------------------------------------------------------------- actions


def _on_counted(verb: str) -> Callable[[WebRequest], WebDone]:
    def act(request: WebRequest) -> WebDone:
        name = request.text("counted", most=_NAME_LETTERS)
        if not name and wanted(request).empty:
            request.choice("every", ("yes",), "")  # raises without it: the request may have lost its filter
        counts = _count(request)
        if not name:
            counts.count()
        if not counts.complete:
            raise BadRequest("The count is not complete yet.")
        if counts.verb not in ("", verb):
            raise BadRequest(f"This count was used to {counts.verb} jobs: count again.")
        most = request.number("most", default=0, lowest=0)
        numbers = act_on_counted(counts, verb, ACT_MS if name else None, stop_at=most or None)
        if name:
            counts.keep()
        numbers |= {"filter": _about(counts), "stopped": 0 < most <= numbers["done_to"] + numbers["refused"]}
        return WebDone(result(verb, numbers, _about(counts)), _after(counts, verb, numbers), numbers)

    return act


def _after(counts: JobCounts, verb: str, numbers: Mapping[str, Any]) -> str:
    if not numbers["finished"]:
        return with_fields(f"{PATH}/count", counted=counts.name, verb="" if numbers["stopped"] else verb)
    if verb == "delete" and counts.wanted.empty:  # all jobs: the queue itself, too
        for place in counts.places.values():
            if isinstance(place, Queue):
                place.forget()
    return with_fields(PATH, **{**fields_of(counts.wanted), "where": counts.where})


def _on_selected(verb: str) -> Callable[[WebRequest], WebDone]:
    def act(request: WebRequest) -> WebDone:
        text, numbers = act_on_keys(request.installation, verb, request.all("key"))
        fields = {name: request.text(name, most=_CURSOR_LETTERS) for name in (*FIELDS, "order")}
        return WebDone(text, with_fields(PATH, **fields), numbers)

    return act


TAB = WebTab(
    "jobs",
    "Jobs",
    PATH,
    routes={"": show, "/count": show_count},
    actions={
        **{f"/{verb}": _on_counted(verb) for verb in ACTIONS},
        **{f"/selected/{verb}": _on_selected(verb) for verb in ACTIONS},
    },
    fields={
        **{f"/{verb}": (*FIELDS, "counted", "most", "every") for verb in ACTIONS},
        **{f"/selected/{verb}": ("key", *FIELDS, "order") for verb in ACTIONS},
    },
)
