"""Requests that no browser would send, to every page and every action."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from bench.scoreboard import web_parts
from bench.scoreboard.furniture import Furniture, Words, dumped, furnish
from bench.scoreboard.ground import Ground
from bench.scoreboard.payloads import ODD_VALUES
from bench.scoreboard.row import Report, row
from bench.scoreboard.visits import FORM, HOST, OURS, Asked, Reply, Visits
from offsider.web.routing import Route
from offsider.web.segments import segment
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
    "cookie": ('offsider_theme="<b>"', "a=b; =; ;", "x" * 5000),
    "origin": ("null", f"http://{HOST}", "https://evil.example", "http://["),
    "host": (HOST, "evil.example", "", "[::1", "localhost:99999999"),
    "authorization": ("Basic !!!", "Basic " + "A" * 3000, "Bearer x"),
    "x-forwarded-prefix": ("//evil.example", '"><b>'),
    "content-type": ("application/json", "multipart/form-data; boundary=x", "text/plain", ""),
    "range": ("bytes=0-1",),
    "if-none-match": ("*", '"x"'),
}


@row(
    "R18",
    "random requests to all pages and actions, half through ASGI and half through WSGI: invalid methods, paths, "
    "fields, headers and bodies, over malformed jobs",
    bar="responses of 500 and above 0; without the Content-Security-Policy 0; that take > 1 s 0",
    heavy=True,
)
def fuzzed(ground: Ground, report: Report) -> None:
    wanted = ground.pick(smoke=1_500, full=20_000)
    server = ground.server(persist=False)
    statuses, faults, slow = Counter[int](), list[str](), list[str]()
    slowest = 0.0
    with web_parts.overheard() as log, closing(web_parts.asgi_visits(server, insecure=True)) as through_asgi:
        ways: Sequence[Visits] = (through_asgi, web_parts.wsgi_visits(server, insecure=True))
        fuzz: Fuzz | None = None
        for number in range(wanted):
            if fuzz is None or number % SPOILED == 0:
                server.raw.flushall()
                fuzz = Fuzz(ground.dice, furnish(server.raw, words_of(ground.dice)))
                bend(server.raw, ground.dice)
            asked = fuzz.request()
            reply = ways[number % 2].send(asked)
            statuses[reply.status] += 1
            slowest = max(slowest, reply.seconds)
            faults += [f"{what}: {asked}"[:700] for what in faults_of(reply)]
            slow += [f"{reply.seconds:.1f} s: {asked}"[:700]] if reply.seconds > SLOWEST_SECONDS else []
    report.count(f"faults 0, got {len(faults)}: {faults[:3]}" if faults else "faults 0", not faults)
    report.count(f"errors in the log: {log.kinds}" if log.errors else "errors in the log 0", not log.errors)
    report.count("many of the requests reach a page", statuses[200] > wanted / 20)
    report.timed(f"none takes > {SLOWEST_SECONDS:g} s: {slow[:3]}" if slow else "none takes > 1 s", not slow)
    report.figure("requests", f"{wanted:,}")
    report.figure("statuses", ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    report.figure("slowest", f"{slowest * 1000:.0f} ms")


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


def faults_of(reply: Reply) -> Iterator[str]:
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
        furniture: the stored data, for requests that refer to it.
    """

    def __init__(self, dice: random.Random, furniture: Furniture) -> None:
        self._dice = dice
        self._furniture = furniture
        self._routes = web_parts.routes()
        self._names = web_parts.field_names()

    def request(self) -> Asked:
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
        return Asked(method, target, headers, body)

    def _path(self, route: Route) -> str:
        dice = self._dice
        if dice.random() < 0.05:
            return "/" + quote(dice.choice(STRINGS), errors="replace", safe=dice.choice(["", "/%?&#;"]))[:4000]
        if dice.random() < 0.6:
            return dice.choice(web_parts.targets_of(route, self._furniture))
        path = route.path
        for part in web_parts.parts_of(route):
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
        dice, furniture = self._dice, self._furniture
        kind = dice.randrange(5)
        if kind == 0:
            return dice.choice(STRINGS)
        if kind == 1:
            return dice.choice(NUMBERS)
        if kind == 2:
            return dice.choice(CHOICES)
        keys = [key for keys in furniture.keys.values() for key in keys]
        return dice.choice([furniture.queue, furniture.name, furniture.identity, *furniture.jids[:5], *keys, "usual"])
