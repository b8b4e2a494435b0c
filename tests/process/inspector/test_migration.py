"""A migration that is killed at every point between two requests loses no job and doubles none, on one server and two.

Only data that a killed migration left in Redis is used; the next migration resumes from it.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest
import redis

from offsider import Config
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.jobs import registry
from offsider.storage.cluster import DEFAULT_PREFIX
from tests.process.dying_migration import UNIQUE, configuration, migrate
from tests.process.workers import ROOT
from tests.redis.inspector.migrating import JOBS, every_job, in_queue, in_set, push, raw_job

NAMES = ("shop.mail", "shop.report", "shop.rest", "Ruby::HardJob")
HELD = f"{DEFAULT_PREFIX}offsider:limits:jobs:A"
DEATHS = ("before", "after")
SCORES = {n: 1_700_000_000 + n / 7 for n in range(100, 112)}


@pytest.fixture(autouse=True)
def jobs() -> Iterator[None]:
    with registry.isolated():
        exec(JOBS, {"__name__": "shop"})
        yield


@contextmanager
def mortal(*arguments: str) -> Iterator[Callable[[int, str], str]]:
    """Kills a migration at a point, and returns whether that point exists."""
    command = [sys.executable, "-m", "tests.process.dying_migration", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def kill(number: int, when: str) -> str:
            process.stdin.write(f"{number} {when}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield kill
        process.stdin.close()


def fill(main: redis.Redis, *others: redis.Redis) -> Counter[tuple[str, int]]:
    """Jobs that move and jobs that stay at every place."""
    for client in (main, *others):
        client.flushall()
    push(main, "old", [raw_job(NAMES[n % 4], n) for n in range(12)])
    push(main, "urgent", [raw_job("shop.mail", 50, "urgent")])
    for place in ("schedule", "retry"):
        numbers = [n for n in SCORES if (n % 2 == 0) == (place == "retry")]
        main.zadd(place, {raw_job(NAMES[n // 2 % 4], n): SCORES[n] for n in numbers})
    main.sadd("offsider:places", HELD)
    main.lpush(HELD, *(raw_job(NAMES[n % 4], n) for n in range(60, 68)))
    for client in others:
        push(client, "slow", [raw_job(NAMES[n % 3], n, "slow") for n in range(20, 26)])
        client.zadd("retry", {raw_job("shop.rest", 200, "slow"): 5})
    return every_job(main, *others)


def check_order(main: redis.Redis, bulk: redis.Redis) -> None:
    """Jobs that move keep their order; those that stay keep it if no migration was killed."""
    assert sorted(in_queue(main, "old")) == [("Ruby::HardJob", n) for n in (3, 7, 11)]
    mails = [n for name, n in in_queue(main, "urgent") if name == "shop.mail"]
    assert mails[:4] == [50, 0, 4, 8]
    reports = [n for name, n in in_queue(bulk, "slow") if name == "shop.report"]
    assert [n for n in reports if n < 12] == [1, 5, 9]
    for client in {main, bulk}:
        for place in ("schedule", "retry"):
            for (_, number, _), score in in_set(client, place).items():
                assert score == SCORES.get(number, 5)


def in_transit(client: redis.Redis) -> int:
    return sum(client.llen(key) for key in client.scan_iter("offsider:migrating:*"))


def check_all_is_done(before: Counter[tuple[str, int]], *clients: redis.Redis) -> None:
    assert every_job(*clients) == before
    assert sum(map(in_transit, clients)) == 0
    check_order(clients[0], clients[-1])


def points(kill: Callable[[int, str], str], when: str, prepare: Callable[[], None]) -> Iterator[int]:
    """Each point in turn, after a death there."""
    number = 1
    prepare()
    while kill(number, when) == "died":
        yield number
        number += 1
        prepare()


@pytest.mark.parametrize("when", DEATHS)
def test_on_one_server_no_death_loses_or_doubles_a_job(redis_url, raw_redis, when):
    before = fill(raw_redis)
    deaths = 0
    with mortal(redis_url) as kill:
        for _ in points(kill, when, lambda: fill(raw_redis) and None):
            deaths += 1
            # A move is one step: at no time is a job nowhere, or at two places.
            assert every_job(raw_redis) == before
            migrate([redis_url])
            check_all_is_done(before, raw_redis)
    check_all_is_done(before, raw_redis)
    assert deaths > 20


@pytest.fixture
def two(make_server) -> Iterator[tuple[list[str], redis.Redis, redis.Redis]]:
    """Two servers of two kinds."""
    urls = [make_server(kind="redis7").url, make_server(kind="valkey").url]
    with redis.Redis.from_url(urls[0]) as main, redis.Redis.from_url(urls[1]) as bulk:
        yield urls, main, bulk


@pytest.mark.parametrize("when", DEATHS)
def test_between_two_servers_no_death_loses_or_doubles_a_job(two, when):
    urls, main, bulk = two
    before = fill(main, bulk)
    deaths = on_their_way = 0
    with mortal(*urls) as kill:
        for _ in points(kill, when, lambda: fill(main, bulk) and None):
            deaths += 1
            assert not before - every_job(main, bulk)  # all are somewhere
            on_their_way += bool(in_transit(main) or in_transit(bulk))
            migrate(urls)
            check_all_is_done(before, main, bulk)
    check_all_is_done(before, main, bulk)
    assert deaths > 60
    assert on_their_way > 10


def test_the_next_migration_may_be_killed_too(two):
    urls, main, bulk = two
    dice = Random(20)
    before = fill(main, bulk)
    with mortal(*urls) as kill:
        for _ in range(10):
            fill(main, bulk)
            for _ in range(5):
                kill(dice.randrange(1, 40), dice.choice(DEATHS))
                assert not before - every_job(main, bulk)
            migrate(urls)
            check_all_is_done(before, main, bulk)


#: Two go to another queue, three to another server, one of them scheduled.
UNIQUE_JOBS = [("shop.mail", 1), ("shop.mail", 2), ("shop.report", 3), ("shop.report", 4), ("shop.report", 5)]


@contextmanager
def now(urls: list[str]) -> Iterator[Config]:
    """A program with today's rules."""
    config = configuration(urls, unique=True)
    yield config
    Installation.of(config).close()


def push_unique(config: Config, *, where: dict[str, object] | None = None) -> list[str | None]:
    declared = [(registry.find(name), number) for name, number in UNIQUE_JOBS]
    jobs = [{"class": job, "args": [number], "unique_for": 600, **(where or {})} for job, number in declared]
    return [Client(config).push({**job, **({"at": 4e9} if job["args"] == [5] else {})}) for job in jobs]


@pytest.mark.parametrize("when", DEATHS)
def test_between_two_servers_no_kill_separates_a_lock_from_its_job(two, when):
    urls, main, bulk = two
    deaths = 0
    with mortal(*urls, UNIQUE) as kill:
        for number in range(1 + DEATHS.index(when), 200, 3):
            main.flushall()
            bulk.flushall()
            with now(urls[:1]) as yesterday:
                assert None not in push_unique(yesterday, where={"queue": "old"})
            if kill(number, when) == "done":
                break
            deaths += 1
            with now(urls) as config:
                migrate(urls, unique=True)
                assert push_unique(config) == [None] * len(UNIQUE_JOBS)
            assert sorted(every_job(main, bulk).elements()) == UNIQUE_JOBS
    assert deaths > 10
