"""A lock without a job is released; a lock whose job exists in any place is not, even if the job moves."""

from __future__ import annotations

import logging
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from offsider import Config
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.ext.unique import Locks, reaper, store
from offsider.ext.unique.reaper import Reaper, make_service
from offsider.storage.leases import hold_lease
from tests.redis.ext.unique.travels import HELD, QUEUES, Traveller
from tests.waiting import wait_for

JOB = {"class": "Hard", "args": [1], "unique_for": 600}


def test_the_lock_of_a_job_that_no_longer_exists_is_freed(client, config, redis, raw_redis, caplog):
    jid = client.push(JOB)
    client.push({**JOB, "args": [2]})
    raw_redis.rpop("queue:default")
    with caplog.at_level(logging.INFO, logger="offsider"):
        assert Reaper(redis, age_seconds=0).run() == 1
    assert [lock.jid == jid for lock in Locks(config)] == [False]
    assert "released 1 lock of jobs" in caplog.text
    assert jid in caplog.text
    assert client.push(JOB)


def test_locks_of_waiting_jobs_are_kept(client, config, redis):
    client.push(JOB)
    client.push({**JOB, "args": [2], "at": 4_102_444_800})
    assert Reaper(redis, age_seconds=0).run() == 0
    assert len(Locks(config)) == 2


def test_young_locks_are_ignored(client, redis, raw_redis, monkeypatch):
    client.push(JOB)
    raw_redis.delete("queue:default")
    monkeypatch.setattr(reaper.places, "walk", lambda _redis, **_: 1 / 0)
    assert Reaper(redis, age_seconds=60).run() == 0


def test_without_locks_there_is_no_walk(redis, monkeypatch):
    monkeypatch.setattr(reaper.places, "walk", lambda _redis, **_: 1 / 0)
    young = Reaper(redis, age_seconds=60)
    assert young.run() == 0
    assert young.tick() == 60


def test_a_lock_taken_again_during_the_walk_is_kept(client, config, redis, raw_redis):
    client.push(JOB)
    raw_redis.delete("queue:default")
    (lock,) = Locks(config)
    at_it = Reaper(redis, age_seconds=0)
    at_it._choose()
    assert lock.release()
    fresh = client.push(JOB)
    raw_redis.delete("queue:default")  # where the walk would have met it
    while at_it._walk is not None:
        assert at_it._advance() == 0
    assert [lock.jid for lock in Locks(config)] == [fresh]


def test_a_job_that_starts_during_the_walk_keeps_its_lock(redis):
    traveller = Traveller(redis)
    traveller._take()  # the walk must not find it
    at_it = Reaper(redis, age_seconds=0)
    assert at_it._choose()
    assert store.begin(redis, "lock-traveller", "traveller")
    freed = 0
    while at_it._walk is not None:
        freed += at_it._advance()
    assert freed == 0
    assert Reaper(redis, age_seconds=0).run() == 1


STEPS = st.sampled_from(["claim", "begin", "give_back", "fail", "reschedule", "enqueue", "hold", "resume"])


def reap_while(redis, plan, traveller):
    """A pass of the reaper in small steps, after each of which the job makes some of its moves."""
    moves, walk = iter(plan), reaper.places.walk

    def moving(given, **_):
        for met in walk(given, 2):
            yield met
            for move in next(moves, ()):
                getattr(traveller, move)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reaper.places, "walk", moving)
        patch.setattr(reaper.places, "NEXT_JOBS", 1)
        return Reaper(redis, age_seconds=0).run()


def among_others(raw_redis, redis):
    """A job that is neither the next in its queue nor the last."""
    raw_redis.flushall()
    for queue in QUEUES:
        raw_redis.lpush(f"queue:{queue}", b"next", b"other")
    raw_redis.sadd(redis.keys.places, HELD)
    raw_redis.lpush(HELD, b"next", b"other")
    traveller = Traveller(redis)
    for queue in QUEUES:
        raw_redis.lpush(f"queue:{queue}", b"another", b"last")
    return traveller


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(STEPS, max_size=6), plan=st.lists(st.lists(STEPS, max_size=4), min_size=1, max_size=24))
def test_no_sequence_of_moves_loses_the_lock(redis, raw_redis, before, plan):
    traveller = among_others(raw_redis, redis)
    for move in before:
        getattr(traveller, move)()
    assert reap_while(redis, plan, traveller) == 0
    assert store.read(redis, ["lock-traveller"]) != [None]


@pytest.mark.parametrize(
    "moves",
    [
        (["claim"], ["give_back"]),
        (["claim", "begin"], ["fail"]),
        (["claim", "begin", "fail"], ["enqueue"]),
        (["claim", "begin", "reschedule", "enqueue", "claim"], ["begin", "fail"]),
    ],
    ids=["given back", "fails", "fails and is due", "goes round"],
)
def test_no_two_moves_during_a_pass_lose_the_lock(redis, raw_redis, moves):
    for at, after in product(range(0, 16, 2), range(0, 16, 5)):
        traveller = among_others(raw_redis, redis)
        plan = [[] for _ in range(40)]
        plan[at] = moves[0]
        plan[at + after] = plan[at + after] + moves[1]
        assert reap_while(redis, plan, traveller) == 0, (at, after)


@pytest.fixture
def away():
    """A pool to an unresponsive server."""
    config = Config()
    config.redis.url = "redis://127.0.0.1:1"
    yield Installation.of(config).redis
    Installation.of(config).close()


def test_while_another_server_is_down_no_lock_is_freed_and_it_is_logged_once(client, config, raw_redis, away, caplog):
    client.push(JOB)
    raw_redis.delete("queue:default")
    others, redis = [away], Installation.of(config).redis
    at_it = Reaper(redis, age_seconds=0, others=lambda: others)
    assert [at_it.tick(), at_it.tick()] == [reaper.LEASE_SECONDS] * 2
    assert caplog.text.count("cannot release locks until all servers are reachable") == 1
    assert len(Locks(config)) == 1
    others.clear()
    wait_for(lambda: at_it.tick() and len(Locks(config)) == 0)


def test_a_lock_left_by_a_finished_job_is_freed(redis):
    traveller = Traveller(redis)
    traveller.claim()
    assert Reaper(redis, age_seconds=0).run() == 0
    traveller.finish()
    assert Reaper(redis, age_seconds=0).run() == 1


def test_a_tick_does_bounded_work(client, config, redis, raw_redis, monkeypatch):
    monkeypatch.setattr(reaper, "STEPS_PER_TICK", 2)
    client.push(JOB)
    raw_redis.delete("queue:default")
    config.client.large_payload_bytes = 10**9
    Client(config).push_bulk({"class": "Other", "args": [[number] for number in range(3000)]})
    at_it = Reaper(redis, age_seconds=0)
    ticks = 1
    while at_it.tick() == reaper.PAUSE_SECONDS and len(Locks(config)):
        ticks += 1
    assert ticks >= 2 * 3000 / 500 / 2
    assert len(Locks(config)) == 0


def test_one_process_at_a_time_reaps(client, config, redis, raw_redis):
    client.push(JOB)
    raw_redis.delete("queue:default")
    assert hold_lease(redis, reaper.LEASE, "another", 60)
    assert Reaper(redis, age_seconds=0).tick() == reaper.LEASE_SECONDS
    assert len(Locks(config)) == 1


def test_a_reaper_that_lost_the_turn_starts_over(client, redis, raw_redis, monkeypatch):
    monkeypatch.setattr(reaper, "STEPS_PER_TICK", 1)
    client.push(JOB)
    raw_redis.delete("queue:default")
    at_it = Reaper(redis, age_seconds=0)
    at_it.tick()
    assert at_it._walk is not None
    raw_redis.set("offsider:turn:unique", "another")
    at_it.tick()
    assert at_it._walk is None


def test_an_interrupted_walk_frees_nothing(client, config, redis, monkeypatch):
    monkeypatch.setattr(reaper, "STEPS_PER_TICK", 1)
    client.push({**JOB, "at": 4_102_444_800})
    at_it = Reaper(redis, age_seconds=0)

    def breaks(_redis, **_):
        yield set()
        raise RedisUnavailable("away")

    monkeypatch.setattr(reaper.places, "walk", breaks)
    for _ in range(5):
        at_it.tick()
        with pytest.raises(RedisUnavailable):
            at_it.tick()
    assert len(Locks(config)) == 1


def test_locks_beyond_the_limit_of_a_pass_are_checked_in_the_next(client, config, redis, raw_redis, monkeypatch):
    monkeypatch.setattr(reaper, "MOST_LOCKS", 300)
    monkeypatch.setattr(reaper, "PAGES_PER_TICK", 1)
    client.push_bulk({**JOB, "args": [[number] for number in range(1000)]})
    raw_redis.delete("queue:default")
    at_it = Reaper(redis, age_seconds=0)
    while not at_it._choose():
        pass
    assert 300 <= len(at_it._missing) < 1000
    while at_it._walk is not None:
        at_it._advance()
    assert 0 < len(Locks(config)) <= 700
    at_it.run()
    assert len(Locks(config)) == 0


def test_many_young_locks_are_read_in_steps(client, redis, monkeypatch):
    monkeypatch.setattr(reaper, "PAGES_PER_TICK", 1)
    client.push_bulk({**JOB, "args": [[number] for number in range(1000)]})
    at_it = Reaper(redis, age_seconds=60)
    pauses = []
    while not pauses or pauses[-1] != 60:
        pauses.append(at_it.tick())
    assert len(pauses) > 2
    assert set(pauses) == {reaper.PAUSE_SECONDS, 60}


def test_a_worker_runs_the_reaper(client, config, raw_redis):
    client.push(JOB)
    raw_redis.delete("queue:default")
    service = make_service(config, age_seconds=0.1)
    service.start()
    try:
        wait_for(lambda: len(Locks(config)) == 0)
    finally:
        service.stop()
        service.join(20)
