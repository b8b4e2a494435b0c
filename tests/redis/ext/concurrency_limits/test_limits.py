"""Limits from Python: what holds, what holds the slots, what is parked, and what people may change."""

from __future__ import annotations

import pytest

from offsider import job
from offsider.core.errors import InvalidOptions, RedisUnavailable
from offsider.core.payload import encode
from offsider.ext.concurrency_limits import Limit, Limits, store
from offsider.ext.concurrency_limits.store import Names
from offsider.inspector import Quarantine, Queue
from offsider.testing import RunningWorker
from tests.waiting import wait_for

NAME = "Hard"


@pytest.fixture
def park(redis, raw_redis):
    """Parks jobs of a class, whatever its limit is."""

    def park(*jids, queue="default", name=NAME):
        raw_redis.sadd(redis.keys.places, Names(redis.keys).parked(name))
        raw_redis.sadd(Names(redis.keys).active, name)
        for jid in jids:
            payload = {"class": name, "args": [], "jid": jid, "queue": queue}
            raw_redis.lpush(Names(redis.keys).parked(name), encode(payload))

    return park


def test_without_the_extension_ever_used_there_is_none(limits):
    assert list(limits) == []
    assert limits.find(NAME) == Limit(NAME, None, None, None, paused=False, in_use=0, parked=0)


def test_every_class_is_listed_that_has_a_limit_a_slot_or_parked_jobs(limits, config, redis, raw_redis, park):
    store.declare(redis, {"Declared": 3, "Stopped": -1}, {}, config.clock.now())
    limits.set("Set", 7)
    limits.pause("Paused")
    park("a", name="Parked")
    raw_redis.sadd(Names(redis.keys).active, "Used")
    raw_redis.zadd(Names(redis.keys).slots("Used"), {"host:1:a 1 j": 1_700_000_000_000})
    assert list(limits) == [
        Limit("Declared", 3, 3, None, paused=False, in_use=0, parked=0),
        Limit("Parked", None, None, None, paused=False, in_use=0, parked=1),
        Limit("Paused", 0, None, None, paused=True, in_use=0, parked=0),
        Limit("Set", 7, None, 7, paused=False, in_use=0, parked=0),
        Limit("Stopped", 0, 0, None, paused=True, in_use=0, parked=0),
        Limit("Used", None, None, None, paused=False, in_use=1, parked=0),
    ]
    (holder,) = limits.holders("Used")
    assert (holder.jid, holder.process, holder.since) == ("j", "host:1:a", 1_700_000_000.0)


def test_what_is_set_is_stronger_than_the_code_until_it_is_taken_back(limits, config, redis):
    store.declare(redis, {NAME: 3}, {}, config.clock.now())
    limits.set(NAME, 0)
    assert (limits.find(NAME).limit, limits.find(NAME).set_to) == (None, 0)
    limits.unset(NAME)
    assert limits.find(NAME).limit == 3


@pytest.mark.parametrize("limit", [-1, True, "3", 2.5, 1_000_001])
def test_what_is_no_limit_is_refused(limits, limit):
    with pytest.raises(InvalidOptions):
        limits.set(NAME, limit)


def test_a_raised_limit_lets_parked_jobs_go_on_at_once(limits, park, config):
    park("a", "b", "c", "d")
    limits.set(NAME, 2)
    assert [record.jid for record in Queue("default", config)] == ["a", "b"]
    assert (limits.find(NAME).in_use, limits.find(NAME).parked) == (2, 2)


def test_a_paused_class_goes_on_when_it_is_resumed(limits, park, config):
    limits.set(NAME, 1)
    assert limits.pause(NAME)
    assert not limits.pause(NAME)
    park("a")
    assert len(Queue("default", config)) == 0
    assert limits.resume(NAME)
    assert not limits.resume(NAME)
    assert len(Queue("default", config)) == 1


def test_parked_jobs_are_seen_in_their_order(limits, park):
    park("a", "b", "c")
    assert [(record.jid, record.position) for record in limits.parked(NAME, 1)] == [("b", 1), ("c", 2)]


def test_parked_jobs_are_put_aside_and_can_be_restored_to_their_queues(limits, park, config):
    told = []
    config.on("job_removed", lambda news: told.append((news.where, news.how)))
    park(*(f"a{number}" for number in range(60)))
    for number in range(0, 60, 7):
        park(f"b{number}", queue="other")
        park(f"c{number}")
    assert limits.quarantine(NAME) == 78
    assert limits.find(NAME).parked == 0
    assert told == [("parked:Hard", "quarantine")] * 78
    aside = Quarantine(config)
    assert [aside.restore(job.id) for job in list(aside)] == [True] * 78
    assert (len(Queue("default", config)), len(Queue("other", config))) == (69, 9)


def test_parked_jobs_are_deleted_and_told_of(limits, park, config):
    told = []
    config.on("job_removed", lambda news: told.append((news.where, news.how)))
    park("a", "b")
    assert limits.delete(NAME) == 2
    assert told == [("parked:Hard", "delete")] * 2
    assert limits.delete(NAME) == limits.quarantine(NAME) == 0


def test_a_class_without_a_limit_is_limited_within_a_second_or_so(limits, config, declared, client):
    """The worker has run jobs of the class before, and knows that it has no limit."""
    ran = []

    @job(name=NAME)
    def hard() -> None:
        ran.append(1)

    with RunningWorker(config):
        client.push({"class": NAME, "args": []})
        wait_for(lambda: ran)
        limits.pause(NAME)
        gate = next(iter(config.server_middleware))
        wait_for(lambda: gate._table.known[NAME] is not None, 10)
        client.push({"class": NAME, "args": []})
        wait_for(lambda: limits.find(NAME).parked == 1)
        limits.resume(NAME)
        wait_for(lambda: len(ran) == 2)


def test_a_class_is_named_by_its_aliases_wherever_it_is_declared(limits, config, redis, park, declared):
    store.declare(redis, {}, {"Foreign alias": NAME}, config.clock.now())
    limits.pause("Foreign alias")
    assert limits.find(NAME).paused
    park("a")
    assert len(limits.parked("Foreign alias")) == 1

    @job(name=NAME, aliases=("Own alias",))
    def hard() -> None: ...

    assert limits.resume("Own alias")
    assert limits.find("Own alias") == limits.find(NAME)


@pytest.fixture
def twins(config):
    """A second server beside the first."""
    config.add_server("bulk", url=config.redis.url, key_prefix="bulk:")
    return Limits(config), Limits(config.for_server("bulk"))


def test_a_change_holds_on_all_servers(twins, config):
    main, bulk = twins
    main.pause(NAME)
    bulk.set("Other", 3)
    assert [each.find(NAME).paused for each in twins] == [True, True]
    assert [(each.find("Other").limit, each.find("Other").server) for each in twins] == [(3, "main"), (3, "bulk")]
    assert Limits(config, everywhere=False).resume(NAME)
    assert [each.find(NAME).paused for each in twins] == [False, True]
    main.unset("Other")
    assert main.resume(NAME)
    assert [list(each) for each in twins] == [[], []]


def test_a_server_that_is_away_is_told_and_the_others_have_the_change(config, limits):
    config.add_server("away", url="redis://127.0.0.1:1")
    with pytest.raises(RedisUnavailable, match=r"changed on main, not on away: .*127\.0\.0\.1:1"):
        Limits(config).pause(NAME)
    assert limits.find(NAME).paused


def test_the_default_configuration_is_asked_when_none_is_given(config, monkeypatch):
    monkeypatch.setattr("offsider.ext.concurrency_limits.limits.default_config", lambda: config)
    assert list(Limits()) == []
