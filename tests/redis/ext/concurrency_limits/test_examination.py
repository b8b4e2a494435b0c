"""What monitoring is told of concurrency limits."""

from __future__ import annotations

import pytest

from offsider.core.payload import encode
from offsider.ext.concurrency_limits import store
from offsider.ext.concurrency_limits.examination import check_limits
from offsider.ext.concurrency_limits.slots import TURN
from offsider.ext.concurrency_limits.store import Names
from offsider.inspector.doctor import Severity
from offsider.inspector.exposition import fleet_text
from offsider.storage.turns import hold_turn

NAME = "Hard"


@pytest.fixture
def parked(config, redis, raw_redis):
    names = Names(redis.keys)
    store.declare(redis, {NAME: 3}, {}, config.clock.now())
    raw_redis.sadd(redis.keys.places, names.parked(NAME))
    raw_redis.lpush(names.parked(NAME), encode({"class": NAME, "args": [], "jid": "a", "queue": "default"}))
    return names


def found(config):
    return [(finding.severity, finding.what) for finding in check_limits(config)]


def test_a_scrape_tells_limits_slots_and_parked_jobs_of_each_class(config, parked, raw_redis):
    raw_redis.zadd(parked.slots(NAME), {"host:1:a 1 b": 1, "host:1:a 2 c": 1})
    text = fleet_text(config)
    for line in (
        'offsider_concurrency_limit{class="Hard"} 3',
        'offsider_concurrency_limit_in_use{class="Hard"} 2',
        'offsider_concurrency_limit_parked_jobs{class="Hard"} 1',
        "sidekiq_held_back_jobs 1",
    ):
        assert f"\n{line}\n" in text


def test_nothing_parked_is_all_well(config):
    assert found(config) == [(Severity.OK, "0 concurrency limits, and no job is parked")]


def test_parked_jobs_that_no_worker_looks_after_are_found(config, parked, raw_redis):
    raw_redis.zadd(parked.slots(NAME), {"host:1:a 1 b": 1})
    assert found(config) == [(Severity.WARN, "1 job of Hard parked, and no worker looks after them")]


def test_parked_jobs_of_a_paused_class_are_found(config, parked, limits):
    hold_turn(config.shared_redis(), TURN, "worker", 60)
    limits.pause(NAME)
    assert found(config) == [(Severity.WARN, "jobs of Hard are parked because the class is paused")]


def test_jobs_that_are_parked_though_a_slot_is_free_are_found(config, parked):
    hold_turn(config.shared_redis(), TURN, "worker", 60)
    assert found(config) == [(Severity.WARN, "jobs of Hard are parked though no slot is in use")]


def test_parked_jobs_that_wait_for_a_slot_are_as_it_should_be(config, parked, raw_redis):
    hold_turn(config.shared_redis(), TURN, "worker", 60)
    raw_redis.zadd(parked.slots(NAME), {"host:1:a 1 b": 1})
    assert found(config) == [(Severity.OK, "1 concurrency limit, and 1 job parked")]
