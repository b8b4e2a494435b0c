"""How late the scheduler is."""

import time

import pytest

from offsider.storage.lag import scheduler_lag_seconds


def test_it_is_late_by_the_age_of_what_is_due_longest(pool, raw_redis):
    now = time.time()
    raw_redis.zadd("schedule", {"late": now - 100, "later": now - 200, "not yet": now + 50})
    raw_redis.zadd("retry", {"not yet": now + 50})
    lag = scheduler_lag_seconds(pool)
    assert lag["schedule"] == pytest.approx(200, abs=20)
    assert lag["retry"] == 0


def test_it_is_not_late_when_there_is_nothing_to_do(pool):
    assert scheduler_lag_seconds(pool) == {"schedule": 0, "retry": 0}
