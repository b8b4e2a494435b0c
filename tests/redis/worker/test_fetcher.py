"""The life of a claim: shared by idle threads, exact about its jobs, and corrected after a lost reply."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import Succeeded
from offsider.runtime import outage
from offsider.storage import working
from offsider.worker.disposition import Done
from offsider.worker.fetch import reliable, state
from offsider.worker.unit_of_work import Run, UnitOfWork
from tests.redis.worker.conftest import Parts
from tests.snapshot import snapshot
from tests.waiting import wait_for


def retrieved(parts: Parts, count: int) -> list[UnitOfWork]:
    return [parts.fetcher.retrieve() for _ in range(count)]


@pytest.fixture(autouse=True)
def short_delays(monkeypatch):
    """Retries immediately after an outage; the tests wait for conditions."""
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)


# -------------------------------------------------------------------------------------- taking


def test_a_job_is_in_the_private_list_while_it_runs(parts, raw_redis):
    raw_redis.lpush("queue:default", "a", "b")
    unit = parts.fetcher.retrieve()
    assert (unit.queue, unit.raw) == ("default", b"a")
    assert snapshot(raw_redis) == {"queue:default": [b"b"], parts.working.removeprefix(parts.redis.keys.prefix): [b"a"]}
    unit.run = Run(None, Succeeded(), 0.0, 0.0, 0.0)
    parts.fetcher.settle(unit, Done())
    parts.fetcher._leading.flush()
    wait_for(lambda: snapshot(raw_redis) == {"queue:default": [b"b"]})


def test_a_thread_waits_for_a_job(parts, raw_redis):
    units = []
    waiting = threading.Thread(target=lambda: units.append(parts.fetcher.retrieve()))
    waiting.start()
    raw_redis.lpush("queue:default", "late")
    waiting.join(10)
    assert [unit.raw for unit in units] == [b"late"]


def test_one_thread_claims_for_all_idle_ones_and_no_more(parts, raw_redis, monkeypatch):
    """A job claimed before a thread is free would be a job that does not run."""
    limits = []
    original = working.ack_and_claim

    def watched(redis, owner, queues, limit, *finished, **pops):
        limits.append(limit)
        return original(redis, owner, queues, limit, *finished, **pops)

    units = []
    threads = [threading.Thread(target=lambda: units.append(parts.fetcher.retrieve())) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: parts.fetcher.idle_count == 4 and parts.fetcher._wait.asleep)
    monkeypatch.setattr(working, "ack_and_claim", watched)
    raw_redis.lpush("queue:default", *(f"job {n}" for n in range(10)))
    for thread in threads:
        thread.join(10)
    assert sorted(unit.raw for unit in units) == [b"job 0", b"job 1", b"job 2", b"job 3"]
    assert max(limits) in (3, 4), f"{limits}: a pop may have moved the first"
    wait_for(lambda: raw_redis.llen("queue:default") == 6)  # the excess is requeued
    assert raw_redis.lrange("queue:default", 0, -1)[::-1] == [f"job {n}".encode() for n in range(4, 10)]


def test_a_quiet_fetcher_returns_no_jobs_and_wakes_waiting_threads(parts, raw_redis):
    units = []
    waiting = [threading.Thread(target=lambda: units.append(parts.fetcher.retrieve())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    parts.fetcher.quiet()
    for thread in waiting:
        thread.join(10)
    raw_redis.lpush("queue:default", "job")
    assert units == [None, None, None]
    assert parts.fetcher.retrieve() is None
    assert snapshot(raw_redis) == {"queue:default": [b"job"]}


def test_jobs_claimed_after_quiet_are_requeued_without_running(parts, raw_redis, monkeypatch):
    raw_redis.lpush("queue:default", "a", "b")
    original = working.ack_and_claim

    def quiet_meanwhile(*given, **pops):
        result = original(*given, **pops)
        parts.fetcher.quiet()
        return result

    monkeypatch.setattr(working, "ack_and_claim", quiet_meanwhile)
    assert parts.fetcher.retrieve() is None
    wait_for(lambda: raw_redis.lrange("queue:default", 0, -1) == [b"b", b"a"])  # the ticker may be at it
    assert snapshot(raw_redis) == {"queues": {b"default"}, "queue:default": [b"b", b"a"]}
    assert parts.fetcher._state.in_flight.of(parts.ownership.identity).total() == 0


# -------------------------------------------------------------------------------------- fence


def test_a_fenced_fetcher_continues_under_a_new_identity(parts, raw_redis):
    """The old lists belong to the process that reclaims them (rule 2)."""
    parts.ownership.register()
    old = parts.ownership.identity
    raw_redis.set(parts.redis.keys.fenced(old), 1)
    raw_redis.lpush("queue:default", "job")
    unit = parts.fetcher.retrieve()
    new = parts.ownership.identity
    assert new != old
    assert unit.entry.owner.identity == new
    assert raw_redis.lrange(parts.redis.keys.working(new, "default", "default"), 0, -1) == [b"job"]
    assert {old.encode(), new.encode()} == set(raw_redis.hkeys("offsider:owners")), "registered before the claim"


# --------------------------------------------------------------------------------- lost replies


def test_jobs_of_a_claim_with_a_lost_reply_are_requeued_and_run(proxied, proxy, raw_redis):
    """They are in the private list of a live owner, and no thread has them (rule 8)."""
    raw_redis.lpush("queue:default", "first", "second")
    proxied.redis.call("SCRIPT", "LOAD", working.ACK_AND_CLAIM.text)
    proxy.lose_reply(working.ACK_AND_CLAIM.sha.encode())
    assert [unit.raw for unit in retrieved(proxied, 2)] == [b"first", b"second"]
    assert snapshot(raw_redis) == {
        proxied.working.removeprefix(proxied.redis.keys.prefix): [b"second", b"first"],
        "queues": {b"default"},
    }
    assert proxy.lost == 1
    ((error, details),) = proxied.errors
    assert isinstance(error, RedisUnavailable)
    assert details["context"] == "fetcher of capsule default"


def test_a_late_claim_is_found_by_the_second_check(proxied, proxy, raw_redis, monkeypatch):
    """The server may still serve the old connection after the first comparison."""
    monkeypatch.setattr(state, "SECOND_CHECK_SECONDS", 0.2)
    raw_redis.lpush("queue:default", "held")
    held = proxied.fetcher.retrieve()
    proxied.fetcher._state.verify()
    proxied.fetcher._leading.reconcile()
    raw_redis.lpush(proxied.working, "late")
    units = []
    waiting = threading.Thread(target=lambda: units.append(proxied.fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: proxied.fetcher._state.reconciler.due)
    proxied.fetcher.audit()  # a beat finds out that it is time
    waiting.join(10)
    assert [unit.raw for unit in units] == [b"late"]
    assert held.raw in raw_redis.lrange(proxied.working, 0, -1), "what is held stays"
    assert not proxied.fetcher._state.reconciler.due


def test_two_heartbeats_that_see_extra_jobs_trigger_a_reconciliation(parts, raw_redis):
    raw_redis.lpush(parts.working, "stray")
    parts.fetcher.audit()
    assert not parts.fetcher._state.reconciler.due
    parts.fetcher.audit()
    assert parts.fetcher.retrieve().raw == b"stray"


def test_an_outage_is_reported_once_and_the_thread_lives_on(proxied, proxy, raw_redis):
    proxy.refuse()
    units = []
    waiting = threading.Thread(target=lambda: units.append(proxied.fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: proxied.errors)
    troubles = proxied.pool.troubles
    raw_redis.lpush("queue:default", "job")
    proxy.accept()
    waiting.join(10)
    assert [unit.raw for unit in units] == [b"job"]
    assert len(proxied.errors) == 1
    assert proxied.pool.troubles == troubles == 0, "it was never connected before: a normal boot"


def test_no_error_of_the_server_ends_the_thread(parts, raw_redis):
    raw_redis.set("queue:default", "no list")
    units = []
    waiting = threading.Thread(target=lambda: units.append(parts.fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: parts.errors)
    raw_redis.delete("queue:default")
    raw_redis.lpush("queue:default", "job")
    waiting.join(10)
    assert [unit.raw for unit in units] == [b"job"]


def test_a_stray_that_its_queue_refuses_does_not_end_all_claims(worker_config, raw_redis):
    parts = Parts(worker_config, ("bad", "good"))
    raw_redis.lpush(parts.redis.keys.working(parts.ownership.identity, "default", "bad"), "stray")
    raw_redis.set("queue:bad", "wrong")
    raw_redis.lpush("queue:good", "job")
    parts.fetcher._state.verify()
    assert parts.fetcher.retrieve().raw == b"job"
    assert [details["context"] for _, details in parts.errors] == [
        "requeueing jobs after the reply to their claim was lost"
    ]
    parts.close()


def test_a_comparison_of_a_fenced_fetcher_registers_a_new_identity(parts, raw_redis):
    parts.ownership.register()
    old = parts.ownership.identity
    raw_redis.lpush(parts.working, "stray")
    raw_redis.set(parts.redis.keys.fenced(old), 1)
    raw_redis.lpush("queue:default", "job")
    parts.fetcher._state.verify()
    unit = parts.fetcher.retrieve()
    assert unit.entry.owner.identity == parts.ownership.identity != old
    assert raw_redis.lrange(parts.redis.keys.working(old, "default", "default"), 0, -1) == [b"stray"]


@pytest.fixture
def two_capsules(worker_config):
    """The parts of the capsule ``default``, and the fetcher of another one."""
    other = worker_config.capsule("other", concurrency=1, queues=["default"])
    parts = Parts(worker_config)
    redis = Installation.of(worker_config).make_redis(parts.context.redis.size)
    fetcher = reliable.ReliableFetcher(replace(parts.context, capsule=other, redis=redis))
    yield parts, fetcher
    fetcher.quiet()
    fetcher.close()
    fetcher._ticker.join(10)
    redis.close()
    parts.close()


def test_each_capsule_has_its_own_lists(two_capsules, raw_redis):
    """A reconciliation in one worker must not requeue running jobs of the other (rule 9)."""
    parts, others_fetcher = two_capsules
    raw_redis.lpush("queue:default", "mine", "theirs")
    parts.fetcher.retrieve()
    assert others_fetcher.retrieve().raw == b"theirs"
    parts.fetcher._state.verify()
    parts.fetcher._leading.reconcile()
    identity = parts.ownership.identity
    stored = snapshot(raw_redis)
    stored.pop("queues", None)  # on a slow machine one of them was prefetched, and requeued
    assert stored == {
        f"offsider:working:{identity}:default:default": [b"mine"],
        f"offsider:working:{identity}:other:default": [b"theirs"],
    }
