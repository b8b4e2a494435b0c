"""Jobs that are put aside instead of deleted, and come back to where they were."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.inspector import DeadSet, JobFilter, Quarantine, Queue, RetrySet, ScheduledSet
from tests.redis.inspector.payloads import job
from tests.snapshot import snapshot

DAY = 86_400


@pytest.fixture
def quarantine(config):
    return Quarantine(config)


@pytest.mark.parametrize("kind", [ScheduledSet, RetrySet, DeadSet], ids=lambda kind: kind.name)
def test_restoring_all_jobs_restores_the_set_exactly(config, raw_redis, quarantine, removed, kind):
    raw_redis.zadd(kind.name, {job(n): n + 0.5 for n in range(120)})
    before = snapshot(raw_redis)
    assert kind(config).quarantine_all(JobFilter(text='"args":[1')) == 31
    assert (len(kind(config)), len(quarantine)) == (89, 31)
    assert {(event.where, event.how) for event in removed} == {(kind.name, "quarantine")}
    assert quarantine.restore_all() == 31
    assert snapshot(raw_redis) == before


def test_a_queue_has_its_jobs_back_at_its_tail(config, raw_redis, quarantine, removed):
    raw_redis.lpush("queue:low", *map(job, range(5)))
    low = Queue("low", config)
    assert low.quarantine_all(JobFilter(argument="1")) == 1
    assert low.quarantine(low.page(2, 1)[0])
    assert [record.args for record in low] == [[0], [2], [4]]
    assert [event.raw for event in removed] == [job(1), job(3)]
    assert {(event.where, event.how) for event in removed} == {("queue:low", "quarantine")}
    assert quarantine.restore_all() == 2
    assert sorted(record.args[0] for record in low) == [0, 1, 2, 3, 4]
    assert [record.args for record in low][:3] == [[0], [2], [4]]


def test_a_quarantined_job_has_its_origin_and_expiry(config, raw_redis, quarantine):
    config.worker.quarantine_days = 7
    raw_redis.zadd("retry", {job(1): 12.5})
    (entry,) = RetrySet(config)
    assert entry.quarantine()
    assert not entry.quarantine()
    (kept,) = quarantine
    assert quarantine.entry(kept.id).raw == kept.raw
    assert quarantine.days == 7
    assert (kept.args, kept.where, kept.score, kept.how) == ([1], "retry", 12.5, "quarantine")
    assert kept.at == pytest.approx(config.clock.now(), abs=5)
    assert kept.until == pytest.approx(config.clock.now() + 7 * DAY, abs=5)


def test_a_job_no_longer_in_quarantine_is_neither_restored_nor_deleted(config, raw_redis, quarantine):
    raw_redis.zadd("dead", {job(1): 1})
    assert DeadSet(config).quarantine_all() == 1
    (kept,) = quarantine
    assert quarantine.delete(kept)
    assert (quarantine.delete(kept), quarantine.restore(kept), quarantine.entry(kept.id)) == (False, False, None)
    assert snapshot(raw_redis) == {}


def test_single_jobs_are_restored_or_deleted(config, raw_redis, quarantine, removed):
    raw_redis.zadd("dead", {job(1): 1, job(2): 2})
    assert DeadSet(config).quarantine_all() == 2
    removed.clear()
    by_args = {kept.args[0]: kept for kept in quarantine}
    assert quarantine.restore(by_args[1])
    assert quarantine.delete(by_args[2])
    assert snapshot(raw_redis) == {"dead": {job(1): 1.0}}
    assert [(event.raw, event.where, event.how) for event in removed] == [(job(2), "quarantine", "delete")]


def test_all_are_deleted_in_pages(config, raw_redis, quarantine):
    raw_redis.zadd("dead", {job(n): n for n in range(120)})
    assert DeadSet(config).quarantine_all() == 120
    assert len(quarantine.page(0, 500)) == len(quarantine.page(0, 500, newest_first=False)) == 120
    assert len({kept.id for kept in quarantine}) == 120
    assert quarantine.delete_all() == 120
    assert snapshot(raw_redis) == {}


def test_jobs_of_an_unusable_queue_stay_in_quarantine(config, raw_redis, quarantine):
    raw_redis.lpush("queue:low", job(1))
    low = Queue("low", config)
    assert low.quarantine_all(low.count()) == 1
    raw_redis.set("queue:low", "wrong")
    with pytest.raises(RedisRefused, match="queue:low has another type, so the job stays in quarantine"):
        quarantine.restore_all()
    assert len(quarantine) == 1


def test_foreign_entries_break_no_page(raw_redis, quarantine):
    raw_redis.zadd("offsider:quarantine", {"half": 9e9, "odd": 9e9, b"\xff": 9e9, "list": 9e9})
    raw_redis.hset("offsider:quarantine:jobs", mapping={"odd": "no head", b"\xff": b'{"score":"x"}\njob', "list": "[]"})
    assert sorted((kept.where, kept.score, kept.raw) for kept in quarantine.page(0, 10)) == [
        ("", 0.0, b""),
        ("", 0.0, b""),
        ("", 0.0, b"job"),
    ]


def test_bytes_that_are_not_a_job_are_restored_unchanged(config, raw_redis, quarantine):
    raw_redis.zadd("dead", {b"\xff\nno job": 5})
    assert DeadSet(config).quarantine_all() == 1
    (kept,) = quarantine
    assert kept.malformed
    assert quarantine.restore(kept)
    assert raw_redis.zscore("dead", b"\xff\nno job") == 5


@pytest.mark.parametrize("where", ["queue", "set"])
def test_expired_jobs_are_deleted_at_the_next_write(config, raw_redis, where):
    jobs = Queue("default", config) if where == "queue" else RetrySet(config)
    for number in range(2):
        for identifier in raw_redis.hkeys("offsider:quarantine:jobs"):
            raw_redis.zadd("offsider:quarantine", {identifier: 1})
        if where == "queue":
            raw_redis.lpush("queue:default", job(number))
            assert jobs.quarantine_all(jobs.count()) == 1
        else:
            raw_redis.zadd("retry", {job(number): 1})
            assert jobs.quarantine_all() == 1
    assert len(Quarantine(config)) == 1
    (stored,) = raw_redis.hvals("offsider:quarantine:jobs")
    assert stored.endswith(job(1))
