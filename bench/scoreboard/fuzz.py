"""Requests that no browser would send, to every page and every action: random ones, and extreme numbers and texts."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from bench.compare.machine import memory_mb
from bench.scoreboard import web_pages
from bench.scoreboard.environment import Environment
from bench.scoreboard.http_clients import FORM, HOST, OURS, HttpRequest, HttpResponse
from bench.scoreboard.payloads import ODD_VALUES
from bench.scoreboard.row import Report, row
from bench.scoreboard.stored_data import StoredData, Words, dumped, store_data
from offsider.core.segments import segment
from offsider.web.routing import Route
from tests.hostile import STRINGS

SLOWEST_SECONDS = 1.0
#: The jobs are stored again after this number of requests, because requests delete and move them.
SPOILED = 250
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "-")
NUMBERS = ("0", "-1", "1", "2", "25", "100", "1e9", "9" * 400, "1.5", "NaN", "\u0663", "0x10", " 1", "1 OR 1=1")
CHOICES = (
    *("json", "html", "1h", "8h", "72h", "latency", "size", "name", "next", "newest", "count", "last_seen", "jobs"),
    *("processes", "asc", "desc", "de", "ar", "dark", "light", "auto", "1", "all", "quiet", "stop"),
)
ODD: tuple[object, ...] = (
    *ODD_VALUES,
    10**400,
    -(10**400),
    float("nan"),
    float("inf"),
    5e-324,
    [["x"] * 50] * 20,
    {"": {"": {}}},
)
BENT = (
    "retry_count",
    "created_at",
    "enqueued_at",
    "failed_at",
    "retried_at",
    "tags",
    "kwargs",
    "error_message",
    "meta.x",
)
SCORES = (0, -1, 1e300, float("inf"), float("-inf"), 253_402_300_800, 4e9)
HEADERS = {
    "accept": ("text/html", "application/json", "*/*", "x/y;q=NaN", ""),
    "accept-language": ("de", "ar,he;q=0.9", "xx;q=2,*", "a" * 5000, ";;;"),
    "cookie": ('offsider_flash="<b>"', "a=b; =; ;", "x" * 5000),
    "origin": ("null", f"http://{HOST}", "https://evil.example", "http://["),
    "host": (HOST, "evil.example", "", "[::1", "localhost:99999999"),
    "authorization": ("Basic !!!", "Basic " + "A" * 3000, "Bearer x"),
    "x-forwarded-prefix": ("//evil.example", '"><b>'),
    "content-type": ("application/json", "multipart/form-data; boundary=x", "text/plain", ""),
    "range": ("bytes=0-1",),
    "if-none-match": ("*", '"x"'),
}
EXTREME_NUMBERS = (
    *("-1", "0", "9999999", "1000000", "1000001", "9" * 15, "9" * 16, "9" * 5_000, "-" + "9" * 5_000, "1e308", "1e999"),
    *("NaN", "inf", "1.5", "0x7fffffff", "1_000", "\u0663\u0664", "", " ", "+7", "--1", "null", "true", "[]", "1,2"),
)
MEGABYTE = "x" * 1_000_000
#: The second is the maximum length of an address.
LONG_TEXTS = (MEGABYTE, "x" * 7_900)
ALLOWED_STATUSES = {200, 302, 303, 400, 404, 413, 414}
MAX_SECONDS = 0.2
MAX_GROWTH_MB = 10


@row(
    "R18",
    "random requests to all pages and actions, half through ASGI and half through WSGI: invalid methods, paths, "
    "fields, headers and bodies, over malformed jobs",
    bar="responses of 500 and above 0; without the Content-Security-Policy 0; that take > 1 s 0",
    heavy=True,
)
def fuzzed(env: Environment, report: Report) -> None:
    wanted = env.pick(smoke=1_500, full=20_000)
    server = env.server(persist=False)
    responses = Responses(SLOWEST_SECONDS)
    with web_pages.overheard() as log, closing(web_pages.asgi_pages(server, insecure=True)) as through_asgi:
        ways = (through_asgi, web_pages.wsgi_pages(server, insecure=True))
        fuzz: Fuzz | None = None
        for number in range(wanted):
            if fuzz is None or number % SPOILED == 0:
                server.raw.flushall()
                fuzz = Fuzz(env.dice, store_data(server.raw, words_of(env.dice)))
                bend(server.raw, env.dice)
            request = fuzz.request()
            reply = ways[number % 2].send(request)
            responses.add(request, reply, faults_of(reply))
    responses.judge(report, log)
    report.count("many of the requests reach a page", responses.statuses[200] > wanted / 20)


class Responses:
    """Counts responses by status, and collects their faults and the slow ones."""

    def __init__(self, max_seconds: float) -> None:
        self.statuses: Counter[int] = Counter()
        self._max_seconds = max_seconds
        self._faults: list[str] = []
        self._slow: list[str] = []

    def add(self, request: HttpRequest, reply: HttpResponse, faults: Iterable[str]) -> None:
        self.statuses[reply.status] += 1
        self._faults += [f"{what}: {request}"[:700] for what in faults]
        self._slow += [f"{reply.seconds:.1f} s: {request}"[:700]] if reply.seconds > self._max_seconds else []

    def judge(self, report: Report, log: web_pages.Overheard) -> None:
        report.nothing("faults", self._faults)
        report.nothing("errors in the log", log.kinds)
        report.timed(f"none takes > {self._max_seconds:g} s; slow: {self._slow[:3]}", not self._slow)
        report.figure("requests", f"{self.statuses.total():,}")
        statuses = sorted(self.statuses.items())
        report.figure("statuses", ", ".join(f"{status}: {count:,}" for status, count in statuses))


def bend(raw: Any, dice: random.Random) -> None:
    """Add jobs and counted runs with invalid values."""
    for place in ("retry", "schedule", "dead"):
        for number in range(len(ODD)):
            job: dict[str, object] = {
                "class": "Bent",
                "jid": f"{number:024x}",
                "queue": "bent",
                "args": [dice.choice(ODD)],
            }
            job |= {dice.choice(BENT): odd for odd in dice.choices(ODD, k=3)}
            raw.zadd(place, {dumped(job): dice.choice(SCORES)})
    now = datetime.now(UTC)
    raw.hset(f"j|{now:%y%m%d}|{now.hour}:{now.minute:02d}", mapping={"Bent|ms": "9" * 400, "Bent|p": "x", "|": "1"})
    raw.lpush("queue:bent", *(dumped({"class": "Bent", "args": [odd], "jid": odd, "enqueued_at": odd}) for odd in ODD))
    raw.sadd("queues", "bent")


def words_of(dice: random.Random) -> Words:
    """Return hostile words for some fields, normal ones for the others."""
    return lambda field: dice.choice(STRINGS) if dice.random() < 0.2 else f"usual {field}"


def faults_of(reply: HttpResponse) -> Iterator[str]:
    """Return the faults of a response."""
    if reply.status >= 500:
        yield str(reply.status)
    if "default-src 'none'" not in reply.header("content-security-policy"):
        yield f"{reply.status} without the policy"
    if reply.header("x-content-type-options") != "nosniff":
        yield f"{reply.status} without nosniff"
    if "Traceback (most" in reply.text:
        yield "shows a traceback"
    for name, value in reply.headers:
        if {"\r", "\n", "\0"} & {*name, *value}:
            yield f"header {name} is broken"
    to = reply.header("location")
    if to and (not to.startswith("/") or to.startswith(("//", "/\\"))):
        yield f"sends to {to}"
    if reply.body and reply.header("content-type").startswith("application/json"):
        try:
            json.loads(reply.body)
        except ValueError as error:
            yield f"no JSON: {error}"


class Fuzz:
    """Creates random requests.

    Args:
        dice: the random generator.
        stored: the stored data, for requests that refer to it.
    """

    def __init__(self, dice: random.Random, stored: StoredData) -> None:
        self._dice = dice
        self._stored = stored
        self._routes = web_pages.routes()
        self._names = web_pages.field_names()

    def request(self) -> HttpRequest:
        """Return the next request."""
        dice = self._dice
        route = dice.choice(self._routes)
        method = route.method if dice.random() < 0.85 else dice.choice(METHODS)
        target = self._path(route)
        if dice.random() < 0.7:
            target += "?" + self._query()
        headers = {name: dice.choice(values) for name, values in HEADERS.items() if dice.random() < 0.06}
        body = b""
        if method == "POST":
            headers = FORM | (OURS if dice.random() < 0.8 else {}) | headers
            body = self._body()
        return HttpRequest(method, target, headers, body)

    def _path(self, route: Route) -> str:
        dice = self._dice
        if dice.random() < 0.05:
            return "/" + quote(dice.choice(STRINGS), errors="replace", safe=dice.choice(["", "/%?&#;"]))[:4000]
        if dice.random() < 0.6:
            return dice.choice(web_pages.targets_of(route, self._stored))
        path = route.path
        for part in web_pages.parts_of(route):
            path = path.replace(f"{{{part}}}", self._segment())
        return path + dice.choice(["/", "//", "/..", "%00", ";x=1"]) if dice.random() < 0.03 else path

    def _segment(self) -> str:
        dice = self._dice
        text = dice.choice(STRINGS)[:2000]
        return dice.choice([segment(text), quote(text, safe="", errors="replace") or "~", dice.choice(NUMBERS), "~ff~"])

    def _query(self) -> str:
        if self._dice.random() < 0.03:
            return self._dice.choice(["&" * 500, "=", "%", "%zz=%", "a=1&" * 300, "x" * 20_000])
        return urlencode(self._pairs(), errors="replace")

    def _body(self) -> bytes:
        dice = self._dice
        if dice.random() < 0.08:
            return dice.choice([b"", dice.randbytes(300), b"key=" + b"x" * 70_000, b"key=1&" * 1500, b"{}", b"%ff=%00"])
        return urlencode(self._pairs(), errors="replace").encode()

    def _pairs(self) -> list[tuple[str, str]]:
        dice = self._dice
        return [(dice.choice(self._names), self._value()) for _ in range(dice.randrange(1, 5))]

    def _value(self) -> str:
        dice, stored = self._dice, self._stored
        kind = dice.randrange(5)
        if kind == 0:
            return dice.choice(STRINGS)
        if kind == 1:
            return dice.choice(NUMBERS)
        if kind == 2:
            return dice.choice(CHOICES)
        keys = [key for keys in stored.keys.values() for key in keys]
        return dice.choice([stored.queue, stored.name, stored.identity, *stored.jids[:5], *keys, "usual"])


@row(
    "R21",
    "each number that a page parses as -1, 0, 10^15, 10^5000, 1e999, NaN and so on; each text as 1 MB; forms of 1 MB",
    bar="each request is refused (400) or answered < 200 ms; RSS grows by < 10 MB",
    heavy=True,
)
def hostile_numbers(env: Environment, report: Report) -> None:
    server = env.server(persist=False)
    stored = store_data(server.raw, lambda field: field)
    targets, actions = (
        [web_pages.targets_of(route, stored)[0] for route in web_pages.routes() if route.method == method]
        for method in ("GET", "POST")
    )
    requests: list[Callable[[], HttpRequest]] = [
        partial(_get, page, name, number)
        for number in EXTREME_NUMBERS
        for page in targets
        for name in web_pages.number_names()
    ]
    requests += [
        partial(_get, page, name, text) for text in LONG_TEXTS for page in targets for name in web_pages.field_names()
    ]
    requests += [partial(_post, action) for action in actions]
    env.dice.shuffle(requests)
    responses = Responses(MAX_SECONDS)
    with web_pages.overheard() as log, closing(web_pages.asgi_pages(server, insecure=True)) as pages:
        for page in targets * 2:  # warm up, because one-time loads and per-thread caches are no growth
            pages.send(HttpRequest("GET", page))
            pages.send(HttpRequest("GET", f"{page}?text={MEGABYTE}"))
        before = resident_mb()
        for make in islice(requests, env.pick(smoke=300, full=None)):
            request = make()
            reply = pages.send(request)
            if reply.seconds > MAX_SECONDS:  # repeat: other load rarely delays it twice
                reply = pages.send(request)
            responses.add(request, reply, [] if reply.status in ALLOWED_STATUSES else [str(reply.status)])
        growth = resident_mb() - before
    responses.judge(report, log)
    report.count(f"RSS grows by < {MAX_GROWTH_MB} MB: {growth:.1f}", growth < MAX_GROWTH_MB)
    report.figure("RSS grew by", f"{growth:.1f} MB")


def _get(page: str, name: str, value: str) -> HttpRequest:
    return HttpRequest("GET", f"{page}?{name}={quote(value)}")


def _post(action: str) -> HttpRequest:
    return HttpRequest("POST", action, OURS | FORM, f"key={MEGABYTE}".encode())


def resident_mb() -> float:
    """Return the resident memory after the allocator has released free memory."""
    gc.collect()
    with suppress(OSError, AttributeError):  # a C library without malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
    return memory_mb(os.getpid())[0]
