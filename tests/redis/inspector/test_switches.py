"""Switches on all servers: set, read, cleared."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.inspector import Switches
from offsider.inspector.switches import InvalidSwitch, SwitchedInPart, known_jobs, switches_here
from offsider.storage import processes, switches


def test_a_switch_has_mode_time_operator_and_reason(config, raw_redis):
    Switches(config).drop("HardJob", by="ann", reason="the bank is down")
    Switches(config).defer("app.Export", timedelta(minutes=2), lasting=timedelta(hours=2))
    switches.count(Installation.of(config).redis, {"HardJob": 7})
    dropped, deferred = Switches(config)
    assert (deferred.name, deferred.action, deferred.delay_seconds) == ("app.Export", "defer", 120.0)
    assert (deferred.until or 0) - deferred.since == 7200
    assert (dropped.name, dropped.action, dropped.keep, dropped.until) == ("HardJob", "drop", True, None)
    assert (dropped.by, dropped.reason, dropped.acted) == ("ann", "the bank is down", 7)
    assert abs(dropped.since - raw_redis.time()[0]) < 10
    assert dropped.missing_on == ()
    assert Switches(config).find("HardJob") == dropped
    assert Switches(config).find("SoftJob") is None


def test_the_latest_switch_applies_until_it_is_cleared(config):
    Switches(config).drop("HardJob", delete=True)
    Switches(config).defer("HardJob")
    (switch,) = Switches(config)
    assert (switch.action, switch.delay_seconds) == ("defer", 300.0)
    assert Switches(config).clear("HardJob")
    assert not Switches(config).clear("HardJob")
    assert list(Switches(config)) == []


def test_without_a_configuration_that_of_the_process_is_used(config):
    previous = set_default_config(config)
    try:
        Switches().drop("HardJob", delete=True)
        assert [switch.keep for switch in Switches()] == [False]
    finally:
        set_default_config(previous)


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda found: found.drop(""), "needs the name of a class"),
        (lambda found: found.drop("x" * 501), "name of a switch expects at most 500 characters"),
        (lambda found: found.drop("A", reason="x" * 501), "reason of a switch"),
        (lambda found: found.drop("A", by="x" * 501), "by of a switch"),
        (lambda found: found.drop("A", lasting=0), "lasting of a switch expects a positive"),
        (lambda found: found.defer("A", 0.5), "seconds of a switch expects at least 1 s"),
        (lambda found: found.defer("A", float("inf")), "seconds of a switch"),
        (lambda found: found.defer("A", 10**400), "seconds of a switch"),
        (lambda found: found.defer("A", timedelta(days=20_000)), "seconds of a switch"),
    ],
)
def test_an_impossible_switch_is_refused_and_nothing_is_set(config, raw_redis, act, message):
    with pytest.raises(InvalidSwitch, match=message):
        act(Switches(config))
    assert raw_redis.keys() == []


def test_all_servers_get_it_also_when_one_of_them_is_away(config):
    config.add_server("away", url="redis://127.0.0.1:1/0", socket_timeout_seconds=0.2)
    with pytest.raises(SwitchedInPart, match=r"changed on main, but not on away: .*127\.0\.0\.1:1"):
        Switches(config).drop("HardJob")
    assert list(switches.read(Installation.of(config).redis).on) == ["HardJob"]
    with pytest.raises(RedisFailure):
        Switches(config).clear("HardJob")
    assert switches.read(Installation.of(config).redis).on == {}


def test_while_a_server_is_away_the_switches_of_others_are_seen(config):
    config.add_server("away", url="redis://127.0.0.1:1/0", socket_timeout_seconds=0.2)
    with pytest.raises(SwitchedInPart):
        Switches(config).drop("HardJob")
    seen = Switches(config).look()
    assert [(one.name, one.missing_on) for one in seen.switches] == [("HardJob", ())]
    assert list(seen.away) == ["away"]
    assert known_jobs(Installation.of(config)) == frozenset()


def test_if_no_server_responds_an_error_is_raised():
    config = Config()
    config.redis.url = "redis://127.0.0.1:1/0"
    config.add_server("away", url="redis://127.0.0.1:1/0")
    for act in (lambda found: found.look(), lambda found: found.drop("HardJob"), list):
        with pytest.raises(RedisUnavailable):
            act(Switches(config))


def test_a_server_that_has_another_switch_of_the_class_is_named(config, redis_url, tag):
    config.add_server("twin", url=redis_url, key_prefix=f"{tag}twin:")
    Switches(config).defer("HardJob", 60, lasting=3600)
    assert Switches(config).look().switches[0].differs_on == ()
    Switches(Installation.of(config, "twin")).drop("SoftJob")
    switches.put(Installation.of(config, "twin").redis, switches.Switch("HardJob", "drop"))
    hard, soft = Switches(config)
    assert (hard.action, hard.differs_on, hard.missing_on) == ("defer", ("twin",), ())
    assert (soft.differs_on, soft.missing_on) == ((), ())


def test_a_switch_missing_on_one_server_is_marked(config, redis_url, tag):
    config.add_server("twin", url=redis_url, key_prefix=f"{tag}twin:")
    Switches(config).drop("HardJob")
    switches.count(Installation.of(config).redis, {"HardJob": 1})
    switches.count(Installation.of(config, "twin").redis, {"HardJob": 2})
    (switch,) = Switches(config)
    assert (switch.missing_on, switch.acted) == ((), 3)
    assert [(one.name, one.acted) for one in switches_here(Installation.of(config))] == [("HardJob", 1)]
    switches.clear(Installation.of(config).redis, "HardJob")
    (switch,) = Switches(config)
    assert (switch.missing_on, switch.acted) == (("main",), 2)


def test_known_jobs_are_those_reported_by_live_workers(config, raw_redis, tag):
    raw_redis.sadd("processes", "a:1:x", "ruby:2:y")
    for identity in ("a:1:x", "ruby:2:y"):
        raw_redis.hset(identity, mapping={"info": "{}"})
    assert known_jobs(Installation.of(config)) == frozenset()
    processes.publish_jobs(Installation.of(config).redis, "a:1:x", {"app.Export": "5ca1ab1e"})
    assert known_jobs(Installation.of(config)) == frozenset({"app.Export"})
    config.add_server("twin", url=config.redis.url, key_prefix=f"{tag}twin:")
    raw_redis.sadd("twin:processes", "b:1:x")
    raw_redis.hset("twin:b:1:x", mapping={"info": "{}"})
    processes.publish_jobs(Installation.of(config, "twin").redis, "b:1:x", {"app.Heavy": "5ca1ab1e"})
    assert known_jobs(Installation.of(config)) == frozenset({"app.Export", "app.Heavy"})
