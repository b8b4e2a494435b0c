"""An action that is killed at every point between two requests loses no job and doubles none, on one server and two.

Only data that a killed action left in Redis is used; a repetition resumes from it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from tests.process.dying_action import act
from tests.process.workers import ROOT

JOBS = range(12)


@contextmanager
def mortal(action: str, *urls: str) -> Iterator[Callable[[int], str]]:
    """Kills an action at a point, and returns whether that point exists."""
    command = [sys.executable, "-m", "tests.process.dying_action", action, *urls]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def kill(number: int) -> str:
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield kill
        process.stdin.close()


def fill(*clients: redis.Redis) -> None:
    for client in clients:
        client.flushall()
    raws = [json.dumps({"class": "HardJob", "args": [n], "jid": f"{n:024x}", "queue": "old"}) for n in JOBS]
    clients[0].sadd("queues", "old")
    clients[0].lpush("queue:old", *raws)


def numbers(client: redis.Redis, key: str) -> list[int]:
    """The jobs of a list in the order in which they run."""
    return [json.loads(raw[raw.index(b"{") :])["args"][0] for raw in reversed(client.lrange(key, 0, -1))]


def stored(*clients: redis.Redis) -> Counter[int]:
    lists = [(client, key) for client in clients for key in client.scan_iter(_type="list")]
    return Counter(number for client, key in lists for number in numbers(client, key))


def test_no_death_during_a_move_loses_or_doubles_a_job(redis_url, raw_redis):
    number = 0
    with mortal("move", redis_url) as kill:
        while fill(raw_redis) or kill(number := number + 1) == "died":
            assert stored(raw_redis) == Counter(JOBS)  # a job is always at exactly one place
            act("move", [redis_url])
            assert numbers(raw_redis, "queue:new") == [*JOBS]
    assert numbers(raw_redis, "queue:new") == [*JOBS]
    assert number > 5


def test_no_death_between_two_servers_loses_or_doubles_a_job(make_server):
    urls = [make_server(kind="redis7").url, make_server(kind="valkey").url]
    number = in_transit = 0
    with (
        redis.Redis.from_url(urls[0]) as main,
        redis.Redis.from_url(urls[1]) as bulk,
        mortal("leave", *urls) as kill,
    ):
        while fill(main, bulk) or kill(number := number + 1) == "died":
            assert not Counter(JOBS) - stored(main, bulk)  # each job is somewhere
            in_transit += main.llen("offsider:in-transit:bulk") > 0
            act("leave", urls)
            assert numbers(bulk, "queue:new") == [*JOBS]
            assert not stored(main)
        assert numbers(bulk, "queue:new") == [*JOBS]
    assert number > 15
    assert in_transit > 5


def everywhere(client: redis.Redis) -> Counter[int]:
    """The jobs of queues, sets and quarantine; each job of a set or in quarantine is stored once by its nature."""
    raws = [raw for key in ("retry", "dead") for raw in client.zrange(key, 0, -1)]
    raws += client.hvals("offsider:quarantine:jobs")
    aside = Counter(json.loads(raw.rpartition(b"\n")[2])["args"][0] for raw in raws)
    return aside + stored(client)


def put_into_retry(client: redis.Redis) -> None:
    fill(client)
    client.zadd("retry", {raw: n for n, raw in enumerate(client.lrange("queue:old", 0, -1))})
    client.delete("queue:old")


def put_aside(client: redis.Redis, url: str) -> None:
    put_into_retry(client)
    act("quarantine a set", [url])


@pytest.mark.parametrize("action", ["retry", "kill", "quarantine a set", "quarantine a queue", "restore"])
def test_no_death_during_a_bulk_action_loses_or_doubles_a_job(redis_url, raw_redis, action):
    def prepare() -> None:
        match action:
            case "quarantine a queue":
                fill(raw_redis)
            case "restore":
                put_aside(raw_redis, redis_url)
            case _:
                put_into_retry(raw_redis)

    number = 0
    with mortal(action, redis_url) as kill:
        while prepare() or kill(number := number + 1) == "died":
            assert everywhere(raw_redis) == Counter(JOBS)
            act(action, [redis_url])
            assert everywhere(raw_redis) == Counter(JOBS)
        assert number > 5
