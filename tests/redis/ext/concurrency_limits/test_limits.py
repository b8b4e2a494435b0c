"""Limits from Python: effective limits, slots in use, held jobs, and changes by operators."""

from __future__ import annotations

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions, RedisUnavailable
from offsider.core.payload import encode
from offsider.ext.concurrency_limits import Limit, Limits, store
from offsider.ext.concurrency_limits.store import Names
from offsider.inspector import Quarantine, Queue
from offsider.testing import RunningWorker
from tests.waiting import wait_for

NAME = "Hard"


@pytest.fixture
def hold(redis, raw_redis):
    """Holds jobs of a class under any limit."""

    def hold(*jids, queue="default", name=NAME):
        raw_redis.sadd(redis.keys.places, Names(redis.keys).held(name))
        raw_redis.sadd(Names(redis.keys).active, name)
        for jid in jids:
            payload = {"class": name, "args": [], "jid": jid, "queue": queue}
            raw_redis.lpush(Names(redis.keys).held(name), encode(payload))

    return hold


def test_without_the_extension_there_are_no_limits(limits):
    assert list(limits) == []
    assert limits.find(NAME) == Limit(NAME, None, None, None, paused=False, in_use=0, held=0)


def test_every_class_is_listed_that_has_a_limit_a_slot_or_held_jobs(limits, config, redis, raw_redis, hold):
    store.declare(redis, {"Declared": 3, "Stopped": -1}, {}, config.clock.now())
    limits.set("Set", 7)
    limits.pause("Paused")
    hold("a", name="Held")
    raw_redis.sadd(Names(redis.keys).active, "Used")
    raw_redis.zadd(Names(redis.keys).slots("Used"), {"host:1:a 1 j": 1_700_000_000_000})
    assert list(limits) == [
        Limit("Declared", 3, 3, None, paused=False, in_use=0, held=0),
        Limit("Held", None, None, None, paused=False, in_use=0, held=1),
        Limit("Paused", 0, None, None, paused=True, in_use=0, held=0),
        Limit("Set", 7, None, 7, paused=False, in_use=0, held=0),
        Limit("Stopped", 0, 0, None, paused=True, in_use=0, held=0),
        Limit("Used", None, None, None, paused=False, in_use=1, held=0),
    ]
    (holder,) = limits.holders("Used")
    assert (holder.jid, holder.process, holder.since) == ("j", "host:1:a", 1_700_000_000.0)


def test_classes_are_named_by_a_part_of_their_name_or_of_a_key(limits, config, redis, hold):
    store.declare(redis, {"Hard": 3, "Soft": 2}, {}, config.clock.now())
    hold("a", name="Export[acme]")
    hold("b", "c", name="Export[small]")
    assert limits.names() == ["Export", "Hard", "Soft"]
    assert (limits.names("ard"), limits.names("[acme"), limits.names("none")) == (["Hard"], ["Export"], [])
    assert [(limit.name, limit.held, limit.keys) for limit in limits.read(["Soft", "Export"])] == [
        ("Soft", 0, 0),
        ("Export", 3, 2),
    ]
    assert [limit.name for limit in limits.by_key("Export")] == ["Export[small]", "Export[acme]"]
    assert [limit.name for limit in limits.by_key("Export", "acm")] == ["Export[acme]"]
    assert [record.jid for record in limits.held("Export", 1)] == ["b", "c"]


def test_a_limit_set_at_run_time_overrides_the_code_until_unset(limits, config, redis):
    store.declare(redis, {NAME: 3}, {}, config.clock.now())
    limits.set(NAME, 0)
    assert (limits.find(NAME).limit, limits.find(NAME).set_to) == (None, 0)
    limits.unset(NAME)
    assert limits.find(NAME).limit == 3


@pytest.mark.parametrize("limit", [-1, True, "3", 2.5, 1_000_001])
def test_an_invalid_limit_is_refused(limits, limit):
    with pytest.raises(InvalidOptions):
        limits.set(NAME, limit)


def test_raising_a_limit_resumes_held_jobs_immediately(limits, hold, config):
    hold("a", "b", "c", "d")
    limits.set(NAME, 2)
    assert [record.jid for record in Queue("default", config)] == ["a", "b"]
    assert (limits.find(NAME).in_use, limits.find(NAME).held) == (2, 2)


def test_resuming_a_class_runs_its_jobs_again(limits, hold, config):
    limits.set(NAME, 1)
    assert limits.pause(NAME)
    assert not limits.pause(NAME)
    hold("a")
    assert len(Queue("default", config)) == 0
    assert limits.resume(NAME)
    assert not limits.resume(NAME)
    assert len(Queue("default", config)) == 1


def test_held_jobs_are_listed_next_first(limits, hold):
    hold("a", "b", "c")
    assert [(record.jid, record.position) for record in limits.held(NAME, 1)] == [("b", 1), ("c", 2)]


def test_held_jobs_move_to_the_quarantine_and_can_be_restored(limits, hold, config):
    reported = []
    config.on("job_removed", lambda news: reported.append((news.where, news.how)))
    hold(*(f"a{number}" for number in range(60)))
    for number in range(0, 60, 7):
        hold(f"b{number}", queue="other")
        hold(f"c{number}")
    assert limits.quarantine(NAME) == 78
    assert limits.find(NAME).held == 0
    assert reported == [("held:Hard", "quarantine")] * 78
    aside = Quarantine(config)
    assert [aside.restore(job.id) for job in list(aside)] == [True] * 78
    assert (len(Queue("default", config)), len(Queue("other", config))) == (69, 9)


def test_deleting_held_jobs_emits_job_removed(limits, hold, config):
    reported = []
    config.on("job_removed", lambda news: reported.append((news.where, news.how)))
    hold("a", "b")
    assert limits.delete(NAME) == 2
    assert reported == [("held:Hard", "delete")] * 2
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
        *_, gate = config.admissions
        wait_for(lambda: gate._table.known[NAME] is not None, 10)
        client.push({"class": NAME, "args": []})
        wait_for(lambda: limits.find(NAME).held == 1)
        limits.resume(NAME)
        wait_for(lambda: len(ran) == 2)


def test_aliases_select_a_class_in_every_registry(limits, config, redis, hold, declared):
    store.declare(redis, {}, {"Foreign alias": NAME}, config.clock.now())
    limits.pause("Foreign alias")
    assert limits.find(NAME).paused
    hold("a")
    assert len(limits.held("Foreign alias")) == 1

    @job(name=NAME, aliases=("Own alias",))
    def hard() -> None: ...

    assert limits.resume("Own alias")
    assert limits.find("Own alias") == limits.find(NAME)


@pytest.fixture
def twins(config, tag):
    """A second server beside the first."""
    config.add_server("bulk", url=config.redis.url, key_prefix=f"{tag}bulk:")
    return Limits(config), Limits(Installation.of(config, "bulk"))


def test_a_change_applies_to_all_servers(twins, config):
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


def test_an_unreachable_server_is_reported_and_the_others_are_changed(config, limits):
    config.add_server("away", url="redis://127.0.0.1:1")
    with pytest.raises(RedisUnavailable, match=r"changed on main, not on away: .*127\.0\.0\.1:1"):
        Limits(config).pause(NAME)
    assert limits.find(NAME).paused


def test_limits_use_the_default_configuration(config, monkeypatch):
    monkeypatch.setattr("offsider.config.installation.default_config", lambda: config)
    assert list(Limits()) == []
