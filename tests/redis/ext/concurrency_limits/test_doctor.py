"""Concurrency limits in metrics and the doctor."""

from __future__ import annotations

import pytest

from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.ext.concurrency_limits import store
from offsider.ext.concurrency_limits.doctor import check_limits
from offsider.ext.concurrency_limits.slots import LEASE
from offsider.ext.concurrency_limits.store import Names
from offsider.fleet.metrics import read_families
from offsider.inspector.doctor import Severity
from offsider.prometheus.text import text_of
from offsider.storage.leases import hold_lease

NAME = "Hard"


@pytest.fixture
def held(config, redis, raw_redis):
    names = Names(redis.keys)
    store.declare(redis, {NAME: 3}, {}, config.clock.now())
    raw_redis.sadd(redis.keys.places, names.held(NAME))
    raw_redis.sadd(names.active, NAME)
    raw_redis.lpush(names.held(NAME), encode({"class": NAME, "args": [], "jid": "a", "queue": "default"}))
    return names


def found(config):
    return [(finding.severity, finding.what) for finding in check_limits(Installation.of(config))]


def test_metrics_have_limit_slots_and_held_jobs_of_each_class(config, held, raw_redis):
    raw_redis.zadd(held.slots(NAME), {"host:1:a 1 b": 1, "host:1:a 2 c": 1})
    text = text_of(read_families(Installation.of(config)))
    for line in (
        'offsider_concurrency_limit{class="Hard"} 3.0',
        'offsider_concurrency_limit_in_use{class="Hard"} 2.0',
        'offsider_concurrency_limit_held_jobs{class="Hard"} 1.0',
        "sidekiq_held_back_jobs 1.0",
    ):
        assert f"\n{line}\n" in text


def test_without_held_jobs_the_check_passes(config):
    assert found(config) == [(Severity.OK, "0 concurrency limits, 0 held jobs")]


def test_held_jobs_without_a_worker_are_reported(config, held, raw_redis):
    raw_redis.zadd(held.slots(NAME), {"host:1:a 1 b": 1})
    assert found(config) == [(Severity.WARN, "1 held job of Hard, but no worker resumes held jobs")]


def test_held_jobs_of_a_paused_class_are_reported(config, held, limits):
    hold_lease(Installation.of(config).redis, LEASE, "worker", 60)
    limits.pause(NAME)
    assert found(config) == [(Severity.WARN, "jobs of Hard are held because the class is paused")]


def test_held_jobs_with_no_slot_in_use_are_reported(config, held):
    hold_lease(Installation.of(config).redis, LEASE, "worker", 60)
    assert found(config) == [(Severity.WARN, "jobs of Hard are held although no slot is in use")]


def test_held_jobs_that_wait_for_a_slot_pass_the_check(config, held, raw_redis):
    hold_lease(Installation.of(config).redis, LEASE, "worker", 60)
    raw_redis.zadd(held.slots(NAME), {"host:1:a 1 b": 1})
    assert found(config) == [(Severity.OK, "1 concurrency limit, 1 held job")]
