"""Odd fields in Redis: another client, a slip in redis-cli. Pages and commands show the other entries."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle

import pytest
import redis

from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request, Response
from tests.process import every_feature_used as every_feature
from tests.process.cli.commands import offsider
from tests.waiting import wait_for

ODD = (
    *(b"nan", b"[" * 100_000, b"\x00\xff\xfe", b"9" * 5000, b"", b"1e400", b"-5", b"text", b"null", b"[[1, 2]]"),
    *(b'{"a": null}', b"inf", b"0.5", b"1:2", b"9" * 30),
)
PAGES = (
    *(
        "/",
        "/fleet",
        "/fleet/queues",
        "/fleet/processes",
        "/fleet/processes/running",
        "/jobs",
        "/jobs?where=all",
        "/jobs/count?where=all",
        "/error",
        "/class",
        "/class/every.expired",
        "/log",
        "/now/findings",
    ),
    *("/batches", "/controls", "/controls/every.keyed", "/limiters", "/periodic", "/finished", "/locks"),
    *("/stats", "/jobs?text=every", "/jobs?where=queue:default"),
)
COMMANDS = (
    *("stats", "queues", "controls", "limiters", "doctor", "search every", "periodic list"),
    "periodic show nightly",
)
Keys = Mapping[bytes, bytes]


@pytest.fixture
def used(workers, stored, url) -> Iterator[redis.Redis]:
    """The server after a worker has used every feature; the worker is frozen, and no key expires."""
    every_feature.push_from_a_process(url)
    worker = workers.start("-c", "3", app="tests.process.every_feature")
    wait_for(lambda: every_feature.settled(stored), 60)
    wait_for(lambda: stored.exists("offsider:periodic:history:often", "offsider:errors", "offsider:expired") == 3)
    os.killpg(worker.parent, signal.SIGSTOP)
    for key in stored.scan_iter():
        stored.persist(key)
    yield stored
    os.killpg(worker.parent, signal.SIGCONT)


def families(stored: redis.Redis) -> dict[bytes, dict[bytes, bytes]]:
    """The keys by their name without ids, each with its type and value."""
    found: dict[bytes, dict[bytes, bytes]] = {}
    for key in sorted(stored.keys()):
        name = re.sub(rb"[0-9a-f]{12,}|[^:]+:\d+:[0-9a-f]{12}", b"*", key)
        found.setdefault(name, {})[key] = stored.type(key)
    return found


def own_keys(stored: redis.Redis) -> Keys:
    """The keys that only offsider writes."""
    return {
        key: kind
        for name, keys in families(stored).items()
        if name.startswith((b"offsider:", b"b-", b"*", b"stat:")) and name != b"offsider:owners"
        for key, kind in keys.items()
    }


@contextmanager
def spoilt(stored: redis.Redis, keys: Keys, values: Sequence[bytes]) -> Iterator[None]:
    """Replace each value in these keys by one of these, in turn, and add odd names and scores."""
    kept = {key: stored.dump(key) for key in keys}
    odd = cycle(values)
    for key, kind in keys.items():
        if kind == b"hash":
            stored.hset(key, mapping={field: next(odd) for field in [*stored.hkeys(key), values[0][:50]]})
        elif kind == b"string":
            stored.set(key, next(odd))
        elif kind == b"list":
            for place in range(stored.llen(key)):
                stored.lset(key, place, next(odd))
        elif kind == b"set":
            stored.sadd(key, next(odd)[:50])
        elif kind == b"zset":
            stored.zadd(key, {next(odd)[:50]: score for score in (1.0, float("inf"), float("-inf"), 1e300)})
    try:
        yield
    finally:
        for key, dump in kept.items():
            stored.restore(key, 0, dump, replace=True)


def page_of(url: str) -> Callable[[str], Response]:
    """Return a function that reads a page without a server between."""
    app = WebApp(WebOptions({"main": every_feature.here(url)}))

    def respond(path: str) -> Response:
        path, _, query = path.partition("?")
        return app.respond(Request("GET", path, query=query, headers={"host": "localhost", "accept": "text/html"}))

    return respond


def pages(stored: redis.Redis) -> list[str]:
    bids = [bid.decode() for bid in stored.zrange("batches", 0, -1)]
    jids = [key.decode().rpartition(":")[2] for key in stored.keys("offsider:results:job:*")]
    groups = [group.decode(errors="replace") for group in stored.zrange("offsider:errors", 0, 0)]
    return [
        *PAGES,
        *(f"/batches/{bid}" for bid in bids),
        *(f"/finished/jobs/{jid}" for jid in jids[:2]),
        *(f"/job/{jid}" for jid in [*jids[:1], *dead_and_retried(stored)]),
        *(f"/error/{group}" for group in groups),
    ]


def dead_and_retried(stored: redis.Redis) -> list[str]:
    return [json.loads(stored.zrange(key, 0, 0)[0])["jid"] for key in ("dead", "retry") if stored.exists(key)]


def test_odd_fields_of_a_few_kinds_never_break_a_page(used, url):
    respond, every = page_of(url), pages(used)
    assert {path for path in every if respond(path).status != 200} == set()
    broken = set()
    names = list(families(used).items())
    for first in range(len(ODD)):
        some = names[first :: len(ODD)]
        with spoilt(used, {key: kind for _, keys in some for key, kind in keys.items()}, ODD[first:] + ODD[:first]):
            broken |= {(path, *(name for name, _ in some)) for path in every if respond(path).status == 500}
    assert broken == set()


def test_one_odd_value_everywhere_never_breaks_a_page(used, url):
    own, respond, every = own_keys(used), page_of(url), pages(used)
    broken = set()
    for odd in ODD:
        with spoilt(used, own, [odd]):
            broken |= {(path, odd[:10]) for path in every if respond(path).status >= 500}
    assert broken == set()


def test_an_odd_field_is_marked_and_the_rest_is_shown(used, url):
    bid, other = (bid.decode() for bid in used.zrange("batches", 0, 1))
    used.hset(f"b-{bid}", "total", "text")
    used.hset("offsider:limiter:{window:sliding}", "allowed", "\x00")
    respond = page_of(url)
    batches, limiters, one = (respond(path).body.decode() for path in ("/batches", "/limiters", f"/batches/{bid}"))
    assert batches.count("unreadable fields") == limiters.count("unreadable fields") == 1
    assert other in batches
    assert "burst" in limiters
    assert "Unreadable fields" in one


def test_commands_and_pages_survive_odd_fields_everywhere(used, url, tmp_path):
    own, respond = own_keys(used), page_of(url)
    for first in (0, 5, 10):
        with spoilt(used, own, ODD[first:] + ODD[:first]):
            assert {path for path in pages(used) if respond(path).status >= 500} == set()
            for words in COMMANDS:
                done = offsider(tmp_path, *words.split(), REDIS_URL=url, PYTHONPATH=str(every_feature.ROOT))
                assert done.returncode in {0, 1, 2}, (words, done.stderr)
