"""A parent beats for its workers and requeues the jobs of dead ones, despite Redis outages (rule 10)."""

from __future__ import annotations

import logging
import time

import pytest

from offsider.core.payload import decode
from offsider.core.series import Series
from offsider.runtime.events import JobReclaimed
from offsider.storage import owners
from offsider.storage.owners import Lists
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.working import Owner, claim
from offsider.worker.alive import rescue
from offsider.worker.alive.rescue import Rescuer
from offsider.worker.alive.sweeper import Sweeper
from offsider.worker.health_state import CountedRuns, Report
from tests.process.stored import push
from tests.waiting import wait_for

LIFE_MS = 90_000
PID = 4711
IDENTITY = f"host:{PID}:aaaaaaaaaaaa"
WORKING = f"offsider:working:{IDENTITY}:default:default"
ALIVE = f"offsider:alive:{IDENTITY}"
LISTS = Lists(IDENTITY, {"default": ("default",)})
KILLED = "was killed by SIGKILL"


@pytest.fixture
def rescuer(worker_config):
    return Rescuer(worker_config)


@pytest.fixture
def report(worker_config):
    def make(state: str = "ready", **changes) -> Report:
        redis = RedisSettings(url=worker_config.redis.url)
        return Report(**{"lists": LISTS, "life_ms": LIFE_MS, "redis": redis, "state": state, **changes})

    return make


def step(rescuer) -> None:
    rescuer.tend(time.monotonic())


def claim_jobs(parts_redis, count: int) -> None:
    owners.beat(parts_redis, LISTS, LIFE_MS)
    assert len(claim(parts_redis, Owner(IDENTITY, "default"), ["default"], count)) == count


def test_it_beats_for_a_worker_that_has_registered_itself(rescuer, report, parts, raw_redis):
    owners.beat(parts.redis, LISTS, 50_000)
    rescuer.heard(PID, report())
    step(rescuer)
    assert raw_redis.pttl(ALIVE) > 80_000
    assert rescuer.health.ready() == []
    beaten = rescuer.health.workers[PID].beaten_at
    step(rescuer)
    assert rescuer.health.workers[PID].beaten_at == beaten, "a fifth of the life has not passed"
    assert 0 < rescuer.due() - time.monotonic() <= LIFE_MS / 1000 / 5


def test_it_does_not_beat_while_the_worker_does(rescuer, report, parts, raw_redis):
    owners.beat(parts.redis, LISTS, 50_000)
    rescuer.heard(PID, report(beaten=True))
    rescuer.heard(PID, report())  # its state has changed
    step(rescuer)
    assert raw_redis.pttl(ALIVE) <= 50_000
    assert rescuer.health.ready() == [], "the beat of the worker counts"
    assert LIFE_MS / 1000 / 5 < rescuer.due() - time.monotonic() <= 2 * LIFE_MS / 1000 / 5


def test_it_beats_for_a_worker_that_has_missed_a_beat(rescuer, report, parts, raw_redis, monkeypatch):
    monkeypatch.setattr(rescue, "BEATS_PER_LIFE", 9000)
    owners.beat(parts.redis, LISTS, 50_000)
    rescuer.heard(PID, report(beaten=True))
    wait_for(lambda: step(rescuer) or raw_redis.pttl(ALIVE) > 80_000)


def test_the_jobs_of_a_dead_worker_are_back_at_once(rescuer, report, parts, raw_redis, caplog):
    push(raw_redis, "Short", 1)
    push(raw_redis, "Short", 2)
    claim_jobs(parts.redis, 2)
    rescuer.heard(PID, report())
    rescuer.died(PID, KILLED)
    assert rescuer.due() < float("inf")
    with caplog.at_level(logging.WARNING, "offsider"):
        step(rescuer)
    assert raw_redis.llen("queue:default") == 2
    assert not raw_redis.exists(WORKING, ALIVE)
    assert raw_redis.exists(f"offsider:fenced:{IDENTITY}")
    assert "is dead; requeued its 2 jobs" in caplog.text
    named = [record.fields for record in caplog.records if record.getMessage().startswith("requeued Short JID-")]
    assert {(fields["jid"], fields["class"], fields["queue"]) for fields in named} == {
        (job["jid"], "Short", "default") for job in map(decode, raw_redis.lrange("queue:default", 0, -1))
    }
    assert rescuer.health.workers == {}
    assert rescuer.due() <= time.monotonic() + 1, "the second look"
    rescuer.finish(time.monotonic() + 10)
    assert rescuer.due() == float("inf")


def test_requeued_jobs_are_announced_once_by_a_live_worker(rescuer, report, parts, raw_redis):
    push(raw_redis, "Short", 1)
    claim_jobs(parts.redis, 1)
    rescuer.heard(PID, report())
    rescuer.died(PID, KILLED)
    step(rescuer)
    Sweeper(parts.config, parts.redis, parts.ownership).tick()
    assert raw_redis.llen("offsider:rescued") == 1, "nothing listens here"
    reported = []
    parts.config.on("job_reclaimed", reported.append)
    sweeper = Sweeper(parts.config, parts.redis, parts.ownership)
    sweeper.tick()
    sweeper.tick()
    (raw,) = raw_redis.lrange("queue:default", 0, -1)
    assert reported == [JobReclaimed(raw, "default", IDENTITY, 1)]


@pytest.mark.parametrize("strikes", [(3, 1), (4, 0), (0, 0)], ids=str)
def test_a_poison_pill_is_left_to_a_worker(rescuer, report, parts, raw_redis, strikes):
    """A job that was alone with its process when that died, for the third time."""
    max_strikes, left_for_others = strikes
    jid = push(raw_redis, "Short", 1)
    raw_redis.zadd(f"offsider:strikes:{jid}", {f"host:{number}:aaaaaaaaaaaa": time.time() for number in range(2)})
    claim_jobs(parts.redis, 1)
    rescuer.heard(PID, report(max_strikes=max_strikes))
    rescuer.died(PID, KILLED)
    step(rescuer)
    assert raw_redis.llen(WORKING) == left_for_others
    assert raw_redis.llen("queue:default") == 1 - left_for_others
    assert not raw_redis.exists("dead")


def test_jobs_handed_to_a_dead_worker_later_are_requeued_too(rescuer, report, parts, raw_redis):
    claim_jobs(parts.redis, 0)
    rescuer.heard(PID, report())
    rescuer.died(PID, KILLED)
    step(rescuer)
    push(raw_redis, "Short", 1)
    raw_redis.lmove("queue:default", WORKING, "RIGHT", "LEFT")  # a pop that was parked
    wait_for(lambda: step(rescuer) or raw_redis.llen("queue:default") == 1)


def test_lists_are_read_from_the_registry(rescuer, report, parts, raw_redis):
    """The worker has begun to serve another queue, and died before it could report that."""
    rescuer.heard(PID, report())
    owners.beat(parts.redis, Lists(IDENTITY, {"default": ("default", "late")}), LIFE_MS)
    push(raw_redis, "Short", 1, queue="late")
    raw_redis.lmove("queue:late", f"offsider:working:{IDENTITY}:default:late", "RIGHT", "LEFT")
    rescuer.died(PID, KILLED)
    step(rescuer)
    assert raw_redis.llen("queue:late") == 1


def test_a_worker_that_has_left_is_not_fenced_nor_beaten_for(rescuer, report, raw_redis):
    rescuer.heard(PID, report(beaten=True))
    rescuer.heard(PID, report("left"))
    step(rescuer)
    rescuer.died(PID, KILLED)
    rescuer.died(12, KILLED)  # which has never reported
    step(rescuer)
    assert raw_redis.keys("offsider:*") == []


def test_a_beat_that_redis_does_not_take_is_tried_again(proxied_config, proxy, report, caplog, monkeypatch):
    rescuer, redis = Rescuer(proxied_config), Redis(RedisSettings(url=proxy.url), size=1)
    owners.beat(redis, LISTS, LIFE_MS)
    redis.close()
    rescuer.heard(PID, report(redis=redis.settings))
    monkeypatch.setattr(rescue, "BEAT_PAUSE_SECONDS", 0.0)
    proxy.refuse()
    with caplog.at_level(logging.WARNING, "offsider"):
        for _ in range(3):
            step(rescuer)
    assert len(caplog.records) == 1, "one report, not one a beat"
    assert rescuer.health.ready() != []
    proxy.accept()
    wait_for(lambda: step(rescuer) or not rescuer.health.ready())


def test_a_server_that_does_not_answer_delays_a_step_by_a_second(proxied_config, proxy, report, parts):
    rescuer = Rescuer(proxied_config)
    owners.beat(parts.redis, LISTS, LIFE_MS)
    rescuer.heard(PID, report(redis=RedisSettings(url=proxy.url, socket_timeout_seconds=60)))
    step(rescuer)
    proxy.black_hole()
    rescuer.died(PID, KILLED)
    started = time.monotonic()
    step(rescuer)
    assert 0.5 < time.monotonic() - started < 30


def test_jobs_of_a_worker_that_dies_during_an_outage_are_requeued_after_it(
    proxied_config, proxy, report, parts, raw_redis
):
    rescuer = Rescuer(proxied_config)
    push(raw_redis, "Short", 1)
    claim_jobs(parts.redis, 1)
    rescuer.heard(PID, report(redis=RedisSettings(url=proxy.url)))
    proxy.refuse()
    rescuer.died(PID, KILLED)
    step(rescuer)
    assert raw_redis.llen("queue:default") == 0
    proxy.accept()
    wait_for(lambda: step(rescuer) or raw_redis.llen("queue:default"))


def test_after_two_liveness_periods_a_dead_worker_is_left_to_others(proxied_config, proxy, report, caplog):
    rescuer = Rescuer(proxied_config)
    rescuer.heard(PID, report(life_ms=1, redis=RedisSettings(url=proxy.url)))
    proxy.refuse()
    rescuer.died(PID, KILLED)
    with caplog.at_level(logging.WARNING, "offsider"):
        wait_for(lambda: step(rescuer) or rescuer.due() == float("inf"))
    assert "other workers will requeue its jobs" in caplog.text


def test_counts_of_workers_are_summed_and_outlive_them(rescuer, report):
    rescuer.heard(PID, report())
    for _ in range(2):
        rescuer.heard(PID, CountedRuns([Series({"class": "A"}, processed=2)], 1, 5))
    (worker,) = rescuer.health.workers.values()
    assert (worker.busy, worker.concurrency) == (1, 5)
    rescuer.died(PID, KILLED)
    assert [series.processed for series in rescuer.health.series.values()] == [4]
