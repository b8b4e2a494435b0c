"""A job that moves to another server is pushed once per tick by any mix of programs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import redis

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.store import Servers

NOON = int(datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp())


def every_minute():
    return make("tick", "* * * * *", "Tick")


@pytest.fixture
def bulk_url(other_url):
    return other_url


@pytest.fixture
def bulk(bulk_url):
    with redis.Redis.from_url(bulk_url) as client:
        yield client


@pytest.fixture
def both(redis_url, bulk_url):
    """A configuration of two servers, as the workers of each have it."""
    config = Config()
    config.redis.url = redis_url
    config.add_server("bulk", url=bulk_url)
    yield config, Installation.of(config, "bulk")
    Installation.of(config).close()


@pytest.fixture
def set_clocks(clock, bulk):
    def set_clocks(now):
        clock.set(now)
        bulk.set("{offsider}:test:now", now)

    return set_clocks


@pytest.fixture
def old(process, both):
    """A worker of main."""
    worker = process(every_minute())
    worker.service._servers = servers_of(both[0])
    return worker


@pytest.fixture
def make_new(process, redis_url, bulk_url):
    """Makes a worker of the other server."""
    return lambda: process(every_minute(), url=bulk_url, main=redis_url)


def servers_of(config: Config) -> Servers:
    found = Servers.of(Installation.of(config))
    assert found is not None
    return found


def test_a_single_server_needs_no_assignment():
    assert Servers.of(Installation.of(Config())) is None


def test_the_first_server_that_asks_gets_the_tick_and_may_ask_again(both):
    main, other = map(servers_of, both)
    assert main.is_assigned("tick", NOON)
    assert main.is_assigned("tick", NOON)
    assert not other.is_assigned("tick", NOON)
    assert not other.is_assigned("tick", NOON - 60)
    assert other.is_assigned("tick", NOON + 60)
    assert main.handled_by_others() == {"tick": NOON + 60}
    assert servers_of(both[1]).handled_by_others() == {}
    main.forget("tick")
    assert servers_of(both[0]).handled_by_others() == {}


def test_two_versions_of_a_program_push_a_tick_once(set_clocks, old, make_new, bulk, raw_redis):
    set_clocks(NOON + 10)
    new = make_new()
    for worker in (old, new):
        worker.settle()
    for minute in (1, 2, 3):
        set_clocks(NOON + minute * 60)
        for worker in (old, new) if minute % 2 else (new, old):
            worker.settle()
    assert (raw_redis.llen("queue:default"), bulk.llen("queue:default")) == (2, 1)
    assert old.errors == new.errors == []


def test_ticks_between_the_last_old_worker_and_the_first_new_one_are_made_up_for(
    set_clocks, old, make_new, bulk, raw_redis
):
    set_clocks(NOON + 60)
    old.settle()
    set_clocks(NOON + 120)
    old.settle()
    assert raw_redis.llen("queue:default") == 1
    set_clocks(NOON + 190)
    make_new().settle()
    assert bulk.llen("queue:default") == 1


def test_ticks_are_pushed_while_main_is_down(set_clocks, process, bulk_url, bulk, caplog):
    set_clocks(NOON + 10)
    worker = process(every_minute(), url=bulk_url, main="redis://localhost:1")
    worker.settle()
    set_clocks(NOON + 60)
    worker.settle()
    assert bulk.llen("queue:default") == 1
    assert "cannot check which server handles a tick, next attempt in 30 s" in caplog.text


def test_main_is_asked_once_during_an_outage(set_clocks, process, redis_url, bulk_url, monkeypatch):
    set_clocks(NOON + 10)
    entries = [make(f"tick-{number}", "* * * * *", "Tick") for number in range(5)]
    worker = process(*entries, url=bulk_url, main=redis_url)
    worker.settle()
    asked = []

    def hangs(script, *_):
        asked.append(script.name)
        raise RedisUnavailable("no answer in 5 s")

    monkeypatch.setattr(worker.service._servers._redis, "run", hangs)
    set_clocks(NOON + 60)
    worker.settle()
    assert asked == ["assign"]
    assert worker.redis.call("LLEN", "queue:default") == 5


def test_removing_a_job_deletes_its_record(both):
    main, _ = both
    servers_of(Installation.of(main, "bulk")).is_assigned("added", NOON)
    main.use(Periodic())
    PeriodicJobs(main).add("@daily", "A", name="added").remove()
    assert servers_of(main).handled_by_others() == {}
