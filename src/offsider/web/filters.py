"""Which jobs somebody wants to see, as the fields of a query, and the links between the pages of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from offsider.inspector import Chunk, JobFilter, JobRecord
from offsider.web.display import LINE_LETTERS

if TYPE_CHECKING:
    from offsider.web.visit import Visit

PAGE = 25
#: A part of a look through many jobs takes so long, or ends when so many were found.
BUDGET_MS = 80
ENOUGH = 100
#: Counting what matches keeps all of it for so long.
PREVIEW_MS = 50
MOST_PAGES = 1_000_000
#: A hundred years: whatever is older than that has no known age.
LONGEST_AGE_SECONDS = 3_155_760_000
_AGES = ("older", "newer")
TEXTS = ("text", "name", "argument", "error", "tag", "caller")
#: How many values of a kind are offered to choose from.
_OFFERED = 6
_MOST_JOBS = 10**12


def wanted(visit: Visit) -> JobFilter:
    """The filter of a request; an empty one when it asks for none.

    Raises:
        BadRequest: a text is longer than a hundred characters, or an age is no number.
    """
    texts = {name: visit.text(name, most=LINE_LETTERS) for name in TEXTS}
    older = visit.number("older", default=0, lowest=0, highest=LONGEST_AGE_SECONDS)
    newer = visit.number("newer", default=0, lowest=0, highest=LONGEST_AGE_SECONDS)
    return JobFilter(**texts, older_than_seconds=older or None, newer_than_seconds=newer or None)


def fields_of(wanted: JobFilter) -> dict[str, str | int]:
    """The fields that ask for the same jobs again; none for an empty filter."""
    fields: dict[str, str | int] = {name: getattr(wanted, name) for name in TEXTS if getattr(wanted, name)}
    ages = {"older": wanted.older_than_seconds, "newer": wanted.newer_than_seconds}
    return fields | {name: int(seconds) for name, seconds in ages.items() if seconds}


def address(path: str, **fields: str | int) -> str:
    """A path with those fields that say something."""
    said = {name: value for name, value in fields.items() if value != ""}
    return f"{path}?{urlencode(said, errors='replace')}" if said else path


def filter_data(path: str, wanted: JobFilter, **kept: str) -> dict[str, Any]:
    """A filter for a template: its fields, the address that asks for it, and one for each that is without one field.

    Args:
        path: of the list.
        wanted: the filter.
        kept: further fields of the list, such as its order.
    """
    fields = fields_of(wanted)
    without = {name: {k: v for k, v in fields.items() if k != name} for name in fields}
    return {
        "fields": fields,
        "values": {name: fields.get(name, "") for name in (*TEXTS, *_AGES)},
        "empty": not fields,
        "path": address(path, **fields, **kept),
        "without": {name: address(path, **rest, **kept) for name, rest in without.items()},
        "kept": kept,
    }


def pager(path: str, page: int, total: int, **fields: str | int) -> dict[str, Any]:
    """The links around one page of a list.

    Attributes of the answer: ``page`` and ``pages``, ``first`` and ``last`` (places of the jobs on it, from 1; 0 for
    an empty one), ``total``, and the addresses ``previous`` and ``next``, ``start`` and ``end``: empty
    when there is none.
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


def facets(records: Iterable[JobRecord], path: str, wanted: JobFilter, **kept: str) -> list[dict[str, Any]]:
    """What the jobs of a sample have in common, most frequent first, each value with the address that asks for it."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("name", "error", "tag", "caller")}
    for record in records:
        counts["name"][record.display_class] += 1
        counts["error"][record.error_class or ""] += 1
        counts["caller"][record.caller or ""] += 1
        counts["tag"].update(set(record.tags))
    fields = fields_of(wanted)
    return [
        {
            "field": field,
            "values": [
                {"value": value, "count": count, "path": address(path, **fields | {field: value}, **kept)}
                for value, count in counted.most_common(_OFFERED + 1)
                if 0 < len(value) <= LINE_LETTERS and fields.get(field) != value
            ][:_OFFERED],
        }
        for field, counted in counts.items()
    ]


def progress(visit: Visit, chunk: Chunk[Any], path: str, **fields: str | int) -> dict[str, Any]:
    """How far a look through many jobs has come, its earlier parts together with this one.

    Attributes of the answer: ``found``, ``scanned`` and ``total``, all of them jobs, and ``more``, the address
    where the next part is; empty when everything has been looked at.
    """
    scanned = chunk.scanned + visit.number("seen", default=0, lowest=0, highest=_MOST_JOBS)
    found = len(chunk.entries) + visit.number("found", default=0, lowest=0, highest=_MOST_JOBS)
    more = address(path, **fields, cursor=chunk.cursor, seen=scanned, found=found) if chunk.cursor else ""
    # Jobs that come and go while they are counted are no reason to show 101 of 100.
    total = max(chunk.total, scanned) if more else chunk.total
    return {"found": found, "scanned": min(scanned, total), "total": total, "more": more}
