"""Controls on all servers: set, read, ended; groups and held jobs; what the doctor finds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.controls import Control
from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.core.payload import encode
from offsider.fleet.metrics import read_families
from offsider.inspector import Controls, Quarantine, Queue
from offsider.inspector.controls import ChangedInPart, GroupSeen, InvalidControl
from offsider.inspector.findings.examination import examine
from offsider.inspector.search import place_of
from offsider.prometheus.text import text_of
from offsider.storage import control_table, slots
from offsider.storage.slots import Rate


@pytest.fixture
def redis(config):
    return Installation.of(config).redis


@pytest.fixture
def twin(config, redis_url, tag):
    """A second server beside the first."""
    config.add_server("twin", url=redis_url, key_prefix=f"{tag}twin:")
    return Installation.of(config, "twin").redis


@pytest.fixture
def hold(redis, raw_redis):
    """Hold jobs of a group."""

    def hold(*jids, name="Hard", queue="default"):
        raw_redis.sadd("offsider:places", redis.keys.held(name))
        raw_redis.sadd("offsider:groups", name)
        for jid in jids:
            payload = {"class": name, "args": [], "jid": jid, "queue": queue}
            raw_redis.lpush(redis.keys.held(name), encode(payload))

    return hold


def test_a_control_has_action_time_operator_and_reason(config, redis, raw_redis):
    controls = Controls(config)
    controls.drop("HardJob", by="ann", reason="the bank is down")
    controls.defer("app.Export", timedelta(minutes=2), lasting=timedelta(hours=2))
    control_table.count(redis, {"HardJob": 7})
    dropped, deferred = controls
    assert (deferred.subject, deferred.action, deferred.delay_seconds) == ("app.Export", "defer", 120.0)
    assert (deferred.until or 0) - deferred.since == 7200
    assert (dropped.subject, dropped.action, dropped.keep, dropped.until) == ("HardJob", "drop", True, None)
    assert (dropped.by, dropped.reason, dropped.acted) == ("ann", "the bank is down", 7)
    assert abs(dropped.since - raw_redis.time()[0]) < 10
    assert controls.find("HardJob") == dropped
    assert controls.find("SoftJob") is None


def test_the_latest_control_applies_until_it_ends(config):
    controls = Controls(config)
    controls.drop("HardJob", delete=True)
    controls.defer("HardJob")
    (control,) = controls
    assert (control.action, control.delay_seconds) == ("defer", 300.0)
    controls.limit("HardJob", 3)
    controls.hold("urgency=low&tags=export")
    controls.run("HardJob[7]")
    assert [(one.subject, one.described) for one in controls] == [
        ("HardJob", "limited to 3"),
        ("HardJob[7]", "run without a limit"),
        ("urgency=low&tags=export", "held"),
    ]
    assert controls.resume("HardJob")
    assert not controls.resume("HardJob")
    assert len(list(controls)) == 2


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda found: found.drop(""), "needs a subject"),
        (lambda found: found.hold("queue="), "needs a subject"),
        (lambda found: found.drop("urgent=1"), "unknown predicate"),
        (lambda found: found.limit("A", 0), "limit of A: expected 1 to 1,000,000 concurrent runs, got 0"),
        (lambda found: found.limit("A", True), "limit of A: expected"),
        (lambda found: found.drop("x" * 501), "subject of a control expects at most 500 characters"),
        (lambda found: found.drop("A", reason="x" * 501), "reason of a control"),
        (lambda found: found.drop("A", by="x" * 501), "by of a control"),
        (lambda found: found.drop("A", lasting=0), "lasting of a control must be a number of seconds from 0.001 to"),
        (lambda found: found.drop("A", lasting=1e-9), "lasting of a control must be a number of seconds from 0.001 to"),
        (lambda found: found.defer("A", 0.5), "the delay must be a number of seconds from 1 to"),
        (lambda found: found.defer("A", float("inf")), "the delay must be"),
        (lambda found: found.defer("A", timedelta(days=20_000)), "the delay must be"),
    ],
)
def test_an_invalid_control_is_refused_and_nothing_is_set(config, raw_redis, act, message):
    with pytest.raises(InvalidControl, match=message):
        act(Controls(config))
    assert raw_redis.keys() == []


def test_other_servers_are_changed_and_seen_while_one_is_away(config, redis):
    config.add_server("away", url="redis://127.0.0.1:1/0", socket_timeout_seconds=0.2)
    with pytest.raises(ChangedInPart, match=r"changed on main, but not on away: .*127\.0\.0\.1:1"):
        Controls(config).drop("HardJob")
    assert list(control_table.read(redis).on) == ["HardJob"]
    seen = Controls(config).look()
    assert [(one.subject, one.missing_on) for one in seen.controls] == [("HardJob", ())]
    assert list(seen.away) == ["away"]
    assert Controls(config).known_jobs() == frozenset()
    with pytest.raises(RedisFailure):
        Controls(config).resume("HardJob")
    assert control_table.read(redis).on == {}


def test_if_no_server_responds_an_error_is_raised():
    config = Config()
    config.redis.url = "redis://127.0.0.1:1/0"
    config.add_server("away", url="redis://127.0.0.1:1/0")
    for act in (lambda found: found.look(), lambda found: found.drop("HardJob"), list):
        with pytest.raises(RedisUnavailable):
            act(Controls(config))


def test_a_server_with_another_control_or_none_is_named(config, redis, twin):
    controls = Controls(config)
    controls.defer("HardJob", 60, lasting=3600)
    control_table.count(redis, {"HardJob": 1})
    control_table.count(twin, {"HardJob": 2})
    (hard,) = controls
    assert (hard.differs_on, hard.missing_on, hard.acted) == ((), (), 3)
    assert [(one.subject, one.acted) for one in controls.of_server()] == [("HardJob", 1)]
    control_table.put(twin, Control("HardJob", "drop"))
    (hard,) = controls
    assert (hard.action, hard.differs_on, hard.missing_on) == ("defer", ("twin",), ())
    assert finding(config, "partial controls") == "not every server has the control of HardJob (different on twin)"
    control_table.clear(twin, "HardJob")
    (hard,) = controls
    assert (hard.differs_on, hard.missing_on) == ((), ("twin",))
    assert finding(config, "partial controls") == "not every server has the control of HardJob (not on twin)"


def test_known_jobs_are_those_reported_by_live_workers(config, redis, raw_redis):
    controls = Controls(config)
    raw_redis.sadd("processes", "a:1:x", "ruby:2:y")
    for identity in ("a:1:x", "ruby:2:y"):
        raw_redis.hset(identity, mapping={"info": "{}"})
    assert controls.known_jobs() == controls.unknown("app.Import") == frozenset()
    raw_redis.hset("a:1:x", "jobs", '{"app.Export": "5ca1ab1e"}')
    assert controls.known_jobs() == controls.unknown("app.Import[7]") == frozenset({"app.Export"})
    assert controls.unknown("app.Export[7]") == controls.unknown("queue=low") == frozenset()


# ---------------------------------------------------------------------------- groups and held jobs


def test_groups_are_those_with_limits_in_code_slots_or_held_jobs(config, redis, raw_redis, hold):
    controls = Controls(config)
    slots.declare(redis, {"Declared": (3, Rate(1, 2000)), "Stopped": (-1, Rate())}, config.clock.now())
    hold("a", name="Export[acme]")
    hold("b", "c", name="Export[small]")
    raw_redis.sadd("offsider:groups", "Used")
    raw_redis.zadd("offsider:slots:Used", {"host:1:a 1 j": 1_700_000_000_000})
    assert controls.groups() == [
        GroupSeen("Declared", 3, Rate(1, 2000)),
        GroupSeen("Export", held=3, keys=2),
        GroupSeen("Stopped", 0),
        GroupSeen("Used", in_use=1),
    ]
    assert [group.name for group in controls.groups("[acme")] == ["Export"]
    (holder,) = controls.holders("Used")
    assert (holder.jid, holder.process, holder.since) == ("j", "host:1:a", 1_700_000_000.0)
    assert [key.name for key in controls.keys("Export")] == ["Export[small]", "Export[acme]"]
    assert [key.name for key in controls.keys("Export", "acm")] == ["Export[acme]"]
    place = place_of(Installation.of(config), controls.held_place("Export[acme]"))
    assert [record.jid for record in place] == ["a"]
    assert (controls.count_held("Export"), controls.count_held("urgency=low")) == (3, 0)


def test_held_jobs_move_to_the_quarantine_and_can_be_restored(config, hold):
    reported = []
    config.on("job_removed", lambda news: reported.append((news.where, news.how)))
    hold(*(f"a{number}" for number in range(60)))
    for number in range(0, 60, 7):
        hold(f"b{number}", queue="other")
        hold(f"c{number}")
    controls = Controls(config)
    place = place_of(Installation.of(config), controls.held_place("Hard"))
    assert place.quarantine_all() == 78
    assert controls.count_held("Hard") == 0
    assert reported == [("held:Hard", "quarantine")] * 78
    aside = Quarantine(config)
    assert [aside.restore(job) for job in list(aside)] == [True] * 78
    assert (len(Queue("default", config)), len(Queue("other", config))) == (69, 9)


# ---------------------------------------------------------------------------- doctor and metrics


def finding(config, check):
    return next(one.what for one in examine(config) if one.name == check)


def test_metrics_have_controls_limits_slots_and_held_jobs(config, redis, raw_redis, hold):
    slots.declare(redis, {"Hard": (3, Rate())}, config.clock.now())
    hold("a")
    raw_redis.zadd("offsider:slots:Hard", {"host:1:a 1 b": 1, "host:1:a 2 c": 1})
    Controls(config).limit("Hard", 5)
    Controls(config).drop("SoftJob")
    control_table.count(redis, {"SoftJob": 7})
    text = text_of(read_families(Installation.of(config)))
    for line in (
        'offsider_controls{action="drop",subject="SoftJob"} 1.0',
        'offsider_controlled_jobs{action="drop",subject="SoftJob"} 7.0',
        'offsider_limit{group="Hard"} 5.0',
        'offsider_limit_in_use{group="Hard"} 2.0',
        'offsider_limit_held_jobs{group="Hard"} 1.0',
        "sidekiq_held_back_jobs 1.0",
    ):
        assert f"\n{line}\n" in text
