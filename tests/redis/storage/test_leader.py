"""One process leads, under the key of Sidekiq Enterprise."""

from __future__ import annotations

import pytest

from offsider.storage.leader import lead, step_down
from offsider.storage.redis import Redis, RedisSettings


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
