"""Lists: addresses with query fields, links between pages, and the steps of a scan."""

from __future__ import annotations

import time
from typing import Any

from offsider.config.addresses import with_fields
from offsider.config.web_tab import WebScan
from offsider.screens.request import PAGE
from offsider.web.page_request import PageRequest

_MAX_ENTRIES = 10**12


def pager(path: str, page: int, total: int, /, **fields: str | int) -> dict[str, Any]:
    """Return the links of one page of a list.

    Keys: ``page`` and ``pages``; ``first`` and ``last``, positions of its jobs from 1, 0 if empty; ``total``; and the
    addresses ``previous``, ``next``, ``start`` and ``end``, empty if there is none.
    """
    pages = max(1, -(-total // PAGE))
    there = page <= pages and total
    links = {"start": 1, "previous": min(page - 1, pages), "next": page + 1, "end": pages}
    reachable = {"start": page > 1, "previous": page > 1, "next": page < pages, "end": page < pages}
    return {
        "page": page,
        "pages": pages,
        "total": total,
        "first": (page - 1) * PAGE + 1 if there else 0,
        "last": min(page * PAGE, total) if there else 0,
        **{
            name: with_fields(path, **fields, page=min(to, pages)) if reachable[name] else ""
            for name, to in links.items()
        },
    }


def progress(request: PageRequest, matches: int, step: WebScan, path: str, /, **fields: str | int) -> dict[str, Any]:
    """Return the progress of a scan, including its earlier steps; ``matches`` is the number of matches of this step.

    Keys: the numbers of entries ``found``, ``scanned`` and ``total``; and ``more``, the address of the next step, empty
    at the end of the scan; and ``at``, the time of this step.
    """
    scanned = step.scanned + request.number("seen", default=0, lowest=0, highest=_MAX_ENTRIES)
    found = matches + request.number("found", default=0, lowest=0, highest=_MAX_ENTRIES)
    more = with_fields(path, **fields, cursor=step.cursor, seen=scanned, found=found) if step.cursor else ""
    # Jobs are pushed and run during the scan; never show 101 of 100.
    total = max(step.total, scanned) if more else step.total
    return {"found": found, "scanned": min(scanned, total), "total": total, "more": more, "at": time.time()}
