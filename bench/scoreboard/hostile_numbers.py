"""Numbers and texts far beyond those that forms offer."""

from __future__ import annotations

import ctypes
import gc
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from urllib.parse import quote

from bench.scoreboard import web_parts
from bench.scoreboard.furniture import furnish
from bench.scoreboard.ground import Ground
from bench.scoreboard.processes import resident_mb
from bench.scoreboard.row import Report, row
from bench.scoreboard.visits import FORM, OURS, Asked

NUMBERS = (
    *("-1", "0", "9999999", "1000000", "1000001", "9" * 15, "9" * 16, "9" * 5_000, "-" + "9" * 5_000, "1e308", "1e999"),
    *("NaN", "inf", "1.5", "0x7fffffff", "1_000", "\u0663\u0664", "", " ", "+7", "--1", "null", "true", "[]", "1,2"),
)
MEGABYTE = "x" * 1_000_000
#: The second is the maximum length of an address.
TEXTS = (MEGABYTE, "x" * 7_900)
ANSWERS = {200, 303, 400, 404, 413, 414}
MAX_MS = 200
MAX_GROWTH_MB = 10


@row(
    "R21",
    "each number that a page parses as -1, 0, 10^15, 10^5000, 1e999, NaN and so on; each text as 1 MB; forms of 1 MB",
    bar="each request is refused (400) or answered < 200 ms; RSS grows by < 10 MB",
    heavy=True,
)
def hostile_numbers(ground: Ground, report: Report) -> None:
    server = ground.server(persist=False)
    furniture = furnish(server.raw, lambda field: field)
    looks = [web_parts.target_of(route, furniture) for route in web_parts.routes() if route.method == "GET"]
    acts = [web_parts.target_of(route, furniture) for route in web_parts.routes() if route.method == "POST"]
    asked: list[Callable[[], Asked]] = [
        partial(_look, look, name, number) for number in NUMBERS for look in looks for name in web_parts.number_names()
    ]
    asked += [partial(_look, look, name, text) for text in TEXTS for look in looks for name in web_parts.field_names()]
    asked += [partial(_act, act) for act in acts]
    ground.dice.shuffle(asked)
    chosen = [*islice(asked, ground.pick(smoke=300, full=len(asked)))]
    statuses, odd, slow = Counter[int](), list[str](), list[str]()
    with web_parts.overheard() as log, closing(web_parts.asgi_visits(server, insecure=True)) as visits:
        for look in looks * 2:  # warm up, because one-time loads and per-thread caches are no growth
            visits.send(Asked("GET", look))
            visits.send(Asked("GET", f"{look}?text={MEGABYTE}"))
        before = held_mb()
        for make in chosen:
            each = make()
            reply = visits.send(each)
            if reply.seconds * 1000 > MAX_MS:  # repeat: other load rarely delays it twice
                reply = visits.send(each)
            statuses[reply.status] += 1
            where = f"{each.method} {each.target[:80]}: {reply.status} after {reply.seconds * 1000:.0f} ms"
            odd += [where] if reply.status not in ANSWERS else []
            slow += [where] if reply.seconds * 1000 > MAX_MS else []
        growth = held_mb() - before
    report.count(f"refused or answered, except {odd[:5]}" if odd else "refused or answered", not odd)
    report.count(f"errors in the log: {log.kinds}" if log.errors else "errors in the log 0", not log.errors)
    report.timed(f"within {MAX_MS} ms, except {slow[:5]}" if slow else f"within {MAX_MS} ms", not slow)
    report.count(f"RSS grows by < {MAX_GROWTH_MB} MB: {growth:.1f}", growth < MAX_GROWTH_MB)
    report.figure("requests", f"{len(chosen):,}")
    report.figure("statuses", ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    report.figure("RSS grew by", f"{growth:.1f} MB")


def _look(look: str, name: str, value: str) -> Asked:
    return Asked("GET", f"{look}?{name}={quote(value)}")


def _act(act: str) -> Asked:
    return Asked("POST", act, OURS | FORM, f"key={MEGABYTE}".encode())


def held_mb() -> float:
    """Return the resident memory after the allocator has released free memory."""
    gc.collect()
    with suppress(OSError, AttributeError):  # a C library without malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
    return resident_mb(os.getpid())
