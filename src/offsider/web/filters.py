"""Lists: filters as query fields, links between pages, and the steps of a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from offsider.config.web_tab import WebScan
from offsider.inspector import Chunk, ErrorGroups, JobFilter, JobRecord, JobSet, Queue
from offsider.inspector.scan import PAGE_BUDGET_MS, PAGE_MATCHES
from offsider.web.display import LINE_LETTERS, cut
from offsider.web.page_request import PAGE, PageRequest
from offsider.web.redaction import HIDDEN, Redact
from offsider.web.shown_job import listed_job

#: A hundred years.
LONGEST_AGE_SECONDS = 3_155_760_000
_AGES = ("older", "newer")
TEXTS = ("text", "name", "argument", "error", "group", "tag", "caller")
#: Fields of a filter.
FIELDS = (*TEXTS, *_AGES)
#: Maximum values per facet.
_OFFERED = 6
_MAX_ENTRIES = 10**12
_LONGEST_CURSOR = 500


def wanted(request: PageRequest) -> JobFilter:
    """Return the filter of a request; an empty one without filter fields.

    Raises:
        BadRequest: a text is longer than 100 characters, or an age is not a number.
    """
    texts = {name: request.text(name, most=LINE_LETTERS) for name in TEXTS}
    older = request.number("older", default=0, lowest=0, highest=LONGEST_AGE_SECONDS)
    newer = request.number("newer", default=0, lowest=0, highest=LONGEST_AGE_SECONDS)
    return JobFilter(**texts, older_than_seconds=older or None, newer_than_seconds=newer or None)


def fields_of(wanted: JobFilter) -> dict[str, str | int]:
    """Return the query fields of a filter."""
    fields: dict[str, str | int] = {name: getattr(wanted, name) for name in TEXTS if getattr(wanted, name)}
    ages = {"older": wanted.older_than_seconds, "newer": wanted.newer_than_seconds}
    return fields | {name: int(seconds) for name, seconds in ages.items() if seconds}


def address(path: str, /, **fields: str | int) -> str:
    """Return a path with a query of all fields that are not empty."""
    given = {name: value for name, value in fields.items() if value != ""}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def filter_data(path: str, wanted: JobFilter, **kept: str) -> dict[str, Any]:
    """Return a filter for a template: its fields, its address, and an address without each field.

    Args:
        path: of the list.
        wanted: the filter.
        kept: other fields of the list, such as its order.
    """
    fields = fields_of(wanted)
    without = {name: {k: v for k, v in fields.items() if k != name} for name in fields}
    return {
        "fields": fields,
        "values": {name: fields.get(name, "") for name in FIELDS},
        "empty": not fields,
        "path": address(path, **fields, **kept),
        "without": {name: address(path, **rest, **kept) for name, rest in without.items()},
        "kept": kept,
    }


def labels(request: PageRequest, wanted: JobFilter) -> dict[str, str]:
    """Return readable labels of field values: the error for the id of an error group, if the group is known."""
    group = ErrorGroups(request.installation).find(wanted.group) if wanted.group else None
    if group is None:
        return {}
    message = cut(request.unquoted(group.message))
    return {"group": f"{group.error_class}: {message} ({cut(group.name)})"}


def pager(path: str, page: int, total: int, /, **fields: str | int) -> dict[str, Any]:
    """Return the links of one page of a list.

    Keys: ``page`` and ``pages``; ``first`` and ``last``, positions of its jobs from 1, 0 if empty; ``total``; and the
    addresses ``previous``, ``next``, ``start`` and ``end``, empty if there is none.
    """
    pages = max(1, -(-total // PAGE))
    there = page <= pages and total
    links = {"start": 1, "previous": page - 1, "next": page + 1, "end": pages}
    reachable = {"start": page > 1, "previous": page > 1, "next": page < pages, "end": page < pages}
    return {
        "page": page,
        "pages": pages,
        "total": total,
        "first": (page - 1) * PAGE + 1 if there else 0,
        "last": min(page * PAGE, total) if there else 0,
        **{name: address(path, **fields, page=min(to, pages)) if reachable[name] else "" for name, to in links.items()},
    }


def facets(
    records: Iterable[JobRecord], redact: Redact | None, path: str, wanted: JobFilter, **kept: str
) -> list[dict[str, Any]]:
    """Return the most frequent values in a sample of jobs, each with the address that filters by it."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("name", "error", "tag", "caller")}
    for record in records:
        counts["name"][record.display_class] += 1
        counts["error"][record.error_class or ""] += 1
        redacted = listed_job(record, redact)
        counts["caller"][redacted.value(record.caller or "")] += 1
        counts["tag"].update(set(redacted.value([*record.tags])))
    fields = fields_of(wanted)
    return [
        {
            "field": field,
            "values": [
                {"value": value, "count": count, "path": address(path, **fields | {field: value}, **kept)}
                for value, count in counted.most_common(_OFFERED + 1)
                if 0 < len(value) <= LINE_LETTERS and value != HIDDEN and fields.get(field) != value
            ][:_OFFERED],
        }
        for field, counted in counts.items()
    ]


def progress(
    request: PageRequest, matches: int, step: Chunk[Any] | WebScan, path: str, /, **fields: str | int
) -> dict[str, Any]:
    """Return the progress of a scan, including its earlier steps; ``matches`` is the number of matches of this step.

    Keys: the numbers of entries ``found``, ``scanned`` and ``total``; and ``more``, the address of the next step, empty
    at the end of the scan.
    """
    scanned = step.scanned + request.number("seen", default=0, lowest=0, highest=_MAX_ENTRIES)
    found = matches + request.number("found", default=0, lowest=0, highest=_MAX_ENTRIES)
    more = address(path, **fields, cursor=step.cursor, seen=scanned, found=found) if step.cursor else ""
    # Jobs are pushed and run during the scan; never show 101 of 100.
    total = max(step.total, scanned) if more else step.total
    return {"found": found, "scanned": min(scanned, total), "total": total, "more": more}


def listed(
    request: PageRequest,
    jobs: JobSet | Queue,
    path: str,
    *,
    size: int,
    orders: Sequence[str],
    order: str,
    row: Callable[[Any], dict[str, Any]],
    score: Callable[[Any], float] | None = None,
) -> dict[str, Any]:
    """Return one page of a list, or one step of a scan if the request has a filter, with links and facets.

    Args:
        request: page, cursor and filter.
        jobs: the list.
        path: path of its page.
        size: number of its jobs.
        orders: the order of the jobs, and its opposite.
        order: the current one; the second of ``orders`` shows the newest jobs first.
        row: returns the data of a job for the template.
        score: sorts the matches of a step; default: the order of the scan.
    """
    asked, newest_first = wanted(request), order == orders[1]
    fields = fields_of(asked)
    if asked.empty:
        entries = jobs.page(request.rows().start, PAGE, newest_first=newest_first)
        around = {"pager": pager(path, request.page, size, order=order), "search": None}
    else:
        chunk = jobs.scan(
            asked, request.text("cursor", most=_LONGEST_CURSOR), budget_ms=PAGE_BUDGET_MS, most=PAGE_MATCHES
        )
        entries = chunk.entries if score is None else sorted(chunk.entries, key=score, reverse=newest_first)
        around = {"pager": None, "search": progress(request, len(entries), chunk, path, **fields, order=order)}
    return around | {
        "jobs": [row(entry) for entry in entries],
        "facets": facets(entries, request.options.redact, path, asked, order=order),
        "sampled": len(entries),
        "order": order,
        "orders": {name: address(path, **fields, order=name) for name in orders},
        "labels": labels(request, asked),
        "filter": filter_data(path, asked, order=order),
    }
