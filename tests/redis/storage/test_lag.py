"""How late the scheduler is."""

import time

import pytest

from offsider.storage.sample import scheduler_lag_seconds


def test_the_lag_is_the_age_of_the_oldest_due_job(pool, raw_redis):
    now = time.time()
    raw_redis.zadd("schedule", {"late": now - 100, "later": now - 200, "not yet": now + 50})
    raw_redis.zadd("retry", {"not yet": now + 50})
    lag = scheduler_lag_seconds(pool)
    assert lag["schedule"] == pytest.approx(200, abs=20)
    assert lag["retry"] == 0


def test_without_due_jobs_there_is_no_lag(pool):
    assert scheduler_lag_seconds(pool) == {"schedule": 0, "retry": 0}
