"""A job that goes to another server than before is pushed once at each tick, by whichever programs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import redis

from offsider.core.errors import RedisUnavailable
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.homes import Homes
from offsider.wiring.config import Config
from tests.databases import at_database

NOON = int(datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp())


def every_minute():
    return make("tick", "* * * * *", "Tick")


@pytest.fixture
def bulk_url(redis_url):
    return at_database(redis_url, 3)


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
    yield config, config.for_server("bulk")
    config.close()


@pytest.fixture
def set_clocks(clock, bulk):
    def set_clocks(now):
        clock.set(now)
        bulk.set("test:now", now)

    return set_clocks


@pytest.fixture
def old(process, both):
    """A worker of main."""
    worker = process(every_minute())
    worker.service._homes = homes(both[0])
    return worker


@pytest.fixture
def make_new(process, redis_url, bulk_url):
    """Makes a worker of the other server."""
    return lambda: process(every_minute(), url=bulk_url, main=redis_url)


def homes(config: Config) -> Homes:
    found = Homes.of(config)
    assert found is not None
    return found


def test_with_one_server_nobody_has_to_be_asked():
    assert Homes.of(Config()) is None


def test_who_asks_first_has_the_tick_and_may_ask_again(both):
    main, other = map(homes, both)
    assert main.is_here("tick", NOON)
    assert main.is_here("tick", NOON)
    assert not other.is_here("tick", NOON)
    assert not other.is_here("tick", NOON - 60)
    assert other.is_here("tick", NOON + 60)
    assert main.elsewhere() == {"tick": NOON + 60}
    assert other.elsewhere() == {}
    main.forget("tick")
    assert main.elsewhere() == {}


def test_what_is_no_note_is_passed_over(both, raw_redis):
    main, other = map(homes, both)
    raw_redis.hset("offsider:periodic:homes", mapping={"tick": "junk", "other": "x bulk"})
    assert main.elsewhere() == {}
    assert other.is_here("tick", NOON)


def test_programs_of_two_versions_push_a_tick_once(set_clocks, old, make_new, bulk, raw_redis):
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


def test_a_job_goes_on_while_main_is_away(set_clocks, process, bulk_url, bulk, caplog):
    set_clocks(NOON + 10)
    worker = process(every_minute(), url=bulk_url, main="redis://localhost:1")
    worker.settle()
    set_clocks(NOON + 60)
    worker.settle()
    assert bulk.llen("queue:default") == 1
    assert "which server sees to a tick cannot be asked for 30 s" in caplog.text


def test_main_is_asked_once_and_told_later_what_was_claimed_without_it(
    set_clocks, process, redis_url, bulk_url, monkeypatch
):
    set_clocks(NOON + 10)
    entries = [make(f"tick-{number}", "* * * * *", "Tick") for number in range(5)]
    worker = process(*entries, url=bulk_url, main=redis_url)
    worker.settle()
    asked, is_here = [], Homes.is_here

    def hangs(self, name, tick):
        asked.append(name)
        raise RedisUnavailable("no answer in 5 s")

    monkeypatch.setattr(Homes, "is_here", hangs)
    set_clocks(NOON + 60)
    worker.settle()
    assert len(asked) == 1
    assert worker.redis.call("LLEN", "queue:default") == 5
    monkeypatch.setattr(Homes, "is_here", is_here)
    worker.service._ask_homes_at = 0.0
    worker.settle()
    main = Homes(worker.config.redis_of("main"), "main")
    assert main.elsewhere() == {f"tick-{number}": NOON + 60 for number in range(5)}
    assert worker.service._unasked == {}


def test_a_job_that_is_removed_is_forgotten(both):
    main, _ = both
    homes(main.for_server("bulk")).is_here("added", NOON)
    main.use(Periodic())
    PeriodicJobs(main).add("@daily", "A", name="added").remove()
    assert homes(main).elsewhere() == {}
