"""Samples of stored jobs are bounded."""

from offsider.storage import sample


def test_a_sample_has_both_ends_of_every_queue_and_set(pool, raw_redis):
    raw_redis.rpush("queue:long", *range(10))
    raw_redis.rpush("queue:short", 1, 2, 3)
    raw_redis.zadd("retry", {f"r{n}": n for n in range(10)})
    assert sample.sample_jobs(pool, ["long", "short", "none"], each=2) == {
        "queue:long": [b"0", b"1", b"8", b"9"],
        "queue:short": [b"1", b"2", b"3"],
        "queue:none": [],
        "schedule": [],
        "retry": [b"r0", b"r1", b"r8", b"r9"],
    }


def test_fewer_large_jobs_are_read(pool, raw_redis):
    for number in range(20):
        raw_redis.rpush("queue:large", f"{number}" + "x" * 1_000_000)
        raw_redis.rpush("queue:small", number)
    found = sample.sample_jobs(pool, ["large", "small"], each=10)
    assert 2 <= len(found["queue:large"]) <= 10
    assert len(found["queue:small"]) == 20


def test_one_huge_job_from_each_end_is_read(pool, raw_redis, monkeypatch):
    monkeypatch.setattr(sample, "MAX_BYTES", 1_000)
    raw_redis.rpush("queue:huge", *(f"{number}" + "x" * 100_000 for number in range(5)))
    found = sample.sample_jobs(pool, ["huge"], each=10)
    assert [raw[:1] for raw in found["queue:huge"]] == [b"0", b"4"]


def test_a_key_of_the_wrong_type_has_no_jobs(pool, raw_redis):
    raw_redis.set("queue:odd", "text")
    raw_redis.rpush("queue:default", 1)
    raw_redis.set("schedule", "text")
    found = sample.sample_jobs(pool, ["odd", "default"], each=2)
    assert (found["queue:odd"], found["queue:default"], found["schedule"]) == ([], [b"1"], [])
    assert sample.lengths(pool, ["odd", "default"]) == {"odd": None, "default": 1}
    assert sample.lengths(pool, []) == {}


def test_overdue_jobs_are_counted(pool, raw_redis):
    raw_redis.zadd("schedule", {"a": 10, "b": 20, "c": 30})
    assert sample.overdue(pool, 20) == {"schedule": 2, "retry": 0}
