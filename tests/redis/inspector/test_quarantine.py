"""Jobs that are put aside instead of deleted, and come back to where they were."""

from __future__ import annotations

import pytest

from offsider.config.default import set_default_config
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
    assert low.quarantine_matching(JobFilter(argument="1")) == 1
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
    assert quarantine.find(kept.id).raw == kept.raw
    assert quarantine.days == 7
    assert (kept.args, kept.where, kept.score, kept.how) == ([1], "retry", 12.5, "quarantine")
    assert kept.at == pytest.approx(config.clock.now(), abs=5)
    assert kept.until == pytest.approx(config.clock.now() + 7 * DAY, abs=5)


def test_a_job_no_longer_in_quarantine_is_neither_restored_nor_deleted(raw_redis, quarantine):
    assert not quarantine.restore("nobody")
    assert not quarantine.delete("nobody")
    assert quarantine.find("nobody") is None
    assert snapshot(raw_redis) == {}


def test_single_jobs_are_restored_or_deleted(config, raw_redis, quarantine, removed):
    raw_redis.zadd("dead", {job(1): 1, job(2): 2})
    assert DeadSet(config).quarantine_all() == 2
    removed.clear()
    by_args = {kept.args[0]: kept.id for kept in quarantine}
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


def test_bytes_that_are_not_a_job_are_restored_unchanged(config, raw_redis, quarantine):
    raw_redis.zadd("dead", {b"\xff\nno job": 5})
    assert DeadSet(config).quarantine_all() == 1
    (kept,) = quarantine
    assert kept.malformed
    assert quarantine.restore(kept.id)
    assert raw_redis.zscore("dead", b"\xff\nno job") == 5


def test_a_key_prefix_is_before_every_key(config, raw_redis, tag):
    config.redis.key_prefix = f"{tag}app:"
    raw_redis.zadd("app:retry", {job(1): 1})
    raw_redis.lpush("app:queue:low", job(2))
    assert RetrySet(config).quarantine_all() == 1
    low = Queue("low", config)
    assert low.quarantine_matching(low.count()) == 1
    assert sorted(snapshot(raw_redis)) == ["app:offsider:quarantine", "app:offsider:quarantine:jobs"]
    assert Quarantine(config).restore_all() == 2
    assert sorted(snapshot(raw_redis)) == ["app:queue:low", "app:queues", "app:retry"]


def test_the_default_configuration_is_that_of_this_process(config, raw_redis):
    raw_redis.zadd("dead", {job(1): 1})
    DeadSet(config).quarantine_all()
    previous = set_default_config(config)
    try:
        assert len(Quarantine()) == 1
    finally:
        set_default_config(previous)


def test_all_that_were_counted_are_restored_in_parts(config, raw_redis):
    raw_redis.zadd("dead", {job(n): n for n in range(5)})
    DeadSet(config).quarantine_all()
    quarantine = Quarantine(config)
    quarantine.keep(quarantine.count(), "a")
    raw_redis.zadd("dead", {job(9): 9})
    DeadSet(config).quarantine_all()
    parts = 0
    while not (counted := quarantine.counted("a", JobFilter())).finished:
        quarantine.restore_all(counted, budget_ms=0)
        quarantine.keep(counted, "a")
        parts += 1
    assert (parts, counted.done, counted.changed, len(quarantine)) == (1, 5, 0, 1)


@pytest.mark.parametrize("where", ["queue", "set"])
def test_expired_jobs_are_deleted_at_the_next_write(config, raw_redis, where):
    jobs = Queue("default", config) if where == "queue" else RetrySet(config)
    for number in range(2):
        for identifier in raw_redis.hkeys("offsider:quarantine:jobs"):
            raw_redis.zadd("offsider:quarantine", {identifier: 1})
        if where == "queue":
            raw_redis.lpush("queue:default", job(number))
            assert jobs.quarantine_matching(jobs.count()) == 1
        else:
            raw_redis.zadd("retry", {job(number): 1})
            assert jobs.quarantine_all() == 1
    assert len(Quarantine(config)) == 1
    (stored,) = raw_redis.hvals("offsider:quarantine:jobs")
    assert stored.endswith(job(1))
