"""Work that one process at a time does for all, such as that of the leader, under the key of Sidekiq Enterprise."""

from __future__ import annotations

import pytest

from offsider.storage.leases import hold_lease, is_held, lead, step_down
from offsider.storage.redis import Redis, RedisSettings
from tests.waiting import wait_for


@pytest.fixture
def redis(redis_url):
    redis = Redis(RedisSettings(url=redis_url), size=1)
    yield redis
    redis.close()


def test_the_first_leads_and_stays_the_leader(redis, raw_redis):
    assert lead(redis, "a:1:x", 20) == 0
    assert raw_redis.get("dear-leader") == b"a:1:x"
    raw_redis.pexpire("dear-leader", 3000)
    assert lead(redis, "a:1:x", 20) == 0
    assert raw_redis.pttl("dear-leader") > 15_000


def test_other_candidates_get_the_time_of_their_next_attempt(redis, raw_redis):
    lead(redis, "a:1:x", 20)
    assert 15 < lead(redis, "b:1:x", 20) <= 20
    raw_redis.persist("dear-leader")
    assert lead(redis, "b:1:x", 20) == 20


def test_only_the_leader_steps_down(redis, raw_redis):
    lead(redis, "a:1:x", 20)
    assert not step_down(redis, "b:1:x")
    assert step_down(redis, "a:1:x")
    assert lead(redis, "b:1:x", 20) == 0


def test_one_holder_has_the_turn_and_may_prolong_it(pool, raw_redis):
    assert hold_lease(pool, "history", "a", 30)
    assert not hold_lease(pool, "history", "b", 30)
    assert hold_lease(pool, "history", "a", 60)
    assert 30_000 < raw_redis.pttl("offsider:turn:history") <= 60_000


def test_each_work_has_a_turn_of_its_own(pool):
    assert hold_lease(pool, "history", "a", 30)
    assert hold_lease(pool, "something", "b", 30)


def test_the_turn_of_a_dead_process_passes_to_another(pool):
    assert hold_lease(pool, "history", "a", 0.05)
    wait_for(lambda: hold_lease(pool, "history", "b", 30))


def test_other_processes_see_whether_the_turn_is_taken(pool):
    assert not is_held(pool, "reaping")
    hold_lease(pool, "reaping", "a", 60.0)
    assert is_held(pool, "reaping")
