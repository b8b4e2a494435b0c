"""Queues from the outside: their size, their next job, and actions on them."""

from __future__ import annotations

import pytest

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.inspector import DeadSet, JobFilter, JobRecord, Queue, RetrySet, ScheduledSet, Stats
from tests.redis.inspector.payloads import JID, failed_job, job
from tests.snapshot import snapshot


@pytest.fixture
def queue(config):
    return Queue("default", config)


@pytest.fixture
def stock(raw_redis):
    """120 jobs, number 0 runs next: more than two pages."""
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", *map(job, range(120)))


def test_iteration_starts_with_the_next_job(queue, stock):
    assert len(queue) == 120
    assert [record.args for record in queue] == [[n] for n in range(120)]


def test_every_queue_is_listed_by_name(config):
    client = Client(config)
    for name in ("low", "default", "high"):
        client.push({"class": "X", "args": [], "queue": name})
    assert [(queue.name, len(queue)) for queue in Queue.all(config)] == [("default", 1), ("high", 1), ("low", 1)]


def test_a_queue_that_does_not_exist_is_empty(queue):
    assert len(queue) == 0
    assert list(queue) == []
    assert queue.latency_seconds == 0
    assert queue.clear() == 0


def test_deleting_while_iterating_misses_no_job(queue, stock, raw_redis, removed):
    for record in queue:
        if record.args[0] % 3:
            assert queue.delete(record)
    assert [record.args[0] for record in queue] == list(range(0, 120, 3))
    assert len(removed) == 80
    assert {(event.where, event.how) for event in removed} == {("queue:default", "delete")}


def test_a_job_is_found_by_its_jid(queue, stock):
    found = queue.find_job(f"{77:024x}")
    assert found is not None
    assert found.args == [77]
    assert queue.find_job("0" * 23) is None


def test_deleting_removes_one_job_only_if_it_exists(queue, raw_redis, removed):
    raw_redis.lpush("queue:default", job(1), job(1), job(2))
    first, *_ = queue
    assert queue.delete(first)
    assert raw_redis.lrange("queue:default", 0, -1) == [job(2), job(1)]
    assert queue.delete(first)
    assert not queue.delete(first)
    assert [event.raw for event in removed] == [job(1), job(1)]


def test_clearing_a_queue_leaves_nothing_of_it(queue, stock, raw_redis, removed):
    raw_redis.lpush("queue:other", job(1))
    raw_redis.sadd("queues", "other")
    assert queue.clear() == 120
    assert snapshot(raw_redis) == {"queues": {b"other"}, "queue:other": [job(1)]}
    assert [event.raw for event in removed] == [job(n) for n in range(120)]
    assert {(event.where, event.how) for event in removed} == {("queue:default", "clear")}


def test_pausing_is_compatible_with_sidekiq_pro(queue, raw_redis):
    assert not queue.paused
    queue.pause()
    assert queue.paused
    assert raw_redis.smembers("paused") == {b"default"}
    queue.unpause()
    assert not queue.paused
    assert set(snapshot(raw_redis)) == {"offsider:controls:version"}


@pytest.mark.parametrize("version", [6, 7, 8])
def test_the_latency_is_the_wait_of_the_job_that_runs_next(config, raw_redis, version):
    raw_redis.lpush("queue:low", failed_job(version), job(2))
    low = Queue("low", config)
    assert low.latency_seconds == pytest.approx(config.clock.now() - 1795216781.652, abs=5)
    found = low.find_job(JID)
    assert found is not None
    assert low.delete(found)
    assert low.latency_seconds == 0  # of a job without a queue


def test_invalid_bytes_are_shown_and_deleted_like_jobs(queue, raw_redis):
    raw_redis.rpush("queue:default", b"\xff no job")
    (record,) = queue
    assert record.malformed
    assert queue.latency_seconds == 0
    assert queue.find_job(JID) is None
    assert queue.delete(record)
    assert len(queue) == 0


def test_a_key_prefix_is_before_every_key(config, raw_redis, tag):
    config.redis.key_prefix = f"{tag}app:"
    Client(config).push({"class": "X", "args": [], "queue": "low"})
    (low,) = Queue.all(config)
    low.pause()
    assert sorted(snapshot(raw_redis)) == [
        "app:offsider:controls",
        "app:offsider:controls:version",
        *("app:paused", "app:queue:low", "app:queues"),
    ]
    assert len(low) == 1
    assert low.clear() == 1


def test_readers_and_clients_share_one_pool(config, monkeypatch):
    made = []
    make = Installation.make_redis
    monkeypatch.setattr(Installation, "make_redis", lambda self, size: made.append(make(self, size)) or made[-1])
    for number in range(3):
        Client(config).push({"class": "A", "args": [number]})
        assert [queue.name for queue in Queue.all(config)] == ["default"]
        assert len(Queue("default", config)) == Stats.read(config).enqueued == number + 1
        assert [len(kind(config)) for kind in (ScheduledSet, RetrySet, DeadSet)] == [0, 0, 0]
    assert len(made) == 1
    made[0].close()


# ---------------------------------------------------------------------------- pages, places, chunks


def test_pages_start_at_either_end_and_include_positions(queue, stock):
    assert [(record.args, record.position) for record in queue.page(5, 2)] == [([5], 5), ([6], 6)]
    assert [(record.args, record.position) for record in queue.page(5, 2, newest_first=True)] == [
        ([114], 114),
        ([113], 113),
    ]
    assert queue.page(120, 5) == queue.page(120, 5, newest_first=True) == []
    assert all(record.position == record.args[0] for record in queue)


def test_a_job_without_a_queue_belongs_to_the_queue_that_contains_it(config, raw_redis):
    raw_redis.lpush("queue:low", b'{"class":"X","args":[]}')
    oldest = Queue("low", config).oldest
    assert oldest is not None
    assert oldest.queue == "low"
    assert Queue("none", config).oldest is None


def test_a_queue_exists_once_it_was_pushed_to(config, stock):
    assert Queue("default", config).exists
    assert not Queue("none", config).exists


def test_a_job_is_deleted_even_if_its_position_shifted(queue, stock, raw_redis, removed):
    record = queue.page(100, 1)[0]
    raw_redis.rpop("queue:default", 50)
    raw_redis.lpush("queue:default", job(500))
    assert queue.delete(record)
    assert not queue.delete(record)
    assert [event.raw for event in removed] == [job(100)]
    assert len(queue) == 70


def test_a_job_far_from_its_old_position_is_found(queue, raw_redis):
    raw_redis.lpush("queue:default", *map(job, range(4_000)))
    first, second, third = queue.page(3_000, 3)
    raw_redis.rpop("queue:default", 2_000)
    assert queue.delete(first)
    assert queue.quarantine(second)
    assert not queue.quarantine(second)
    assert queue.quarantine(JobRecord(third.raw))
    assert len(queue) == 1_997


def test_equal_jobs_are_counted_and_deleted_each(queue, raw_redis):
    raw_redis.lpush("queue:default", job(1), job(1), job(2))
    counted = queue.count(JobFilter(argument="1"))
    assert len(counted) == 2
    raw_redis.lpush("queue:default", job(1))
    assert queue.delete_all(counted) == 2
    assert len(queue) == 2


def test_an_empty_queue_is_forgotten_and_one_with_a_job_is_not(queue, stock, raw_redis):
    assert not queue.forget()
    queue.delete_all(queue.count())
    assert queue.exists
    assert queue.forget()
    assert not queue.exists


def test_a_job_is_found_by_its_jid_after_many_with_the_jid_in_their_arguments(queue, raw_redis):
    raw_redis.lpush(
        "queue:default", b'{"class":"X","args":["%s"]}' % JID.encode(), *map(job, range(100)), failed_job(8)
    )
    found = queue.find_job(JID)
    assert found is not None
    assert found.position == 101


# ------------------------------------------------------------------------------------ many at once


@pytest.mark.parametrize("every", [1, 2, 3, 50])
def test_matching_jobs_are_deleted_and_the_others_keep_their_order(queue, raw_redis, every):
    raw_redis.lpush("queue:default", *map(job, range(5_000)))
    wanted = JobFilter(text='"args":[7') if every == 50 else JobFilter(name="HardJob")
    if every in (2, 3):
        raw_redis.delete("queue:default")
        raw_redis.lpush(
            "queue:default", *(job(n).replace(b"Hard", b"Spam") if n % every else job(n) for n in range(5_000))
        )
        wanted = JobFilter(name="SpamJob")
    expected = [raw for raw in raw_redis.lrange("queue:default", 0, -1) if not wanted.matches(JobRecord(raw))]
    assert queue.delete_all(wanted) == 5_000 - len(expected)
    assert raw_redis.lrange("queue:default", 0, -1) == expected


def test_concurrent_workers_do_not_disturb_a_bulk_delete(queue, config, raw_redis):
    raw_redis.lpush("queue:default", *map(job, range(5_000)))
    config.on("job_removed", lambda event: raw_redis.rpop("queue:default", 2))
    deleted = queue.delete_all(JobFilter(text='"args":[1'))
    assert 0 < deleted <= 1_111
    assert not [record for record in queue if str(record.args[0]).startswith("1")]
