"""Cancelling jobs in every state."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from offsider import JobCancelled, JobFailed, current_job, job, lookup
from offsider.config.installation import Installation
from offsider.core.job_id import JobInfo
from offsider.ext.results import control, reader, store
from offsider.inspector import DeadSet, Queue, RetrySet, ScheduledSet
from offsider.jobs import registry
from offsider.storage import owners
from offsider.testing.running_worker import RunningWorker
from tests.waiting import wait_for

began, go_on = threading.Event(), threading.Event()
ended = []


@pytest.fixture(autouse=True)
def _again():
    began.clear()
    go_on.clear()
    ended.clear()


# Not in the registry of other tests; a fixture of conftest.py registers them.
with registry.isolated():

    @job(name="waiting", track=True)
    def waiting():
        ended.append("ran")

    @job(name="plain")
    def plain():
        ended.append("ran")

    @job(name="polite", keep_result=60)
    def polite():
        began.set()
        wait_for(lambda: current_job().cancelled)
        ended.append("stopped")
        return 7

    @job(name="deaf", keep_result=60)
    def deaf():
        began.set()
        go_on.wait(60)
        return 7

    @job(name="failing", track=True)
    def failing(when_cancelled=False):
        began.set()
        wait_for(lambda: current_job().cancelled if when_cancelled else go_on.is_set())
        raise ValueError("not yet")

    @job(name="coroutine")
    async def coroutine():
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @job(name="loops", track=True)
    def loops():
        began.set()
        try:
            while True:
                time.sleep(0.001)
        except JobCancelled:
            ended.append("raised")
            raise


@pytest.mark.parametrize("declared", [waiting, plain], ids=["tracked", "untracked"])
def test_a_job_that_waits_is_removed(config, declared):
    jids = [declared.enqueue(), declared.enqueue_in(60)]
    assert [jid.cancel() for jid in jids] == [True, True]
    assert len(Queue("default")) == len(ScheduledSet()) == 0
    state = "cancelled" if declared is waiting else "untracked"
    assert [jid.status() for jid in jids] == [state] * 2
    assert [jid.cancel() for jid in jids] == [False, False]


def test_a_job_that_is_retried_is_removed(config):
    with RunningWorker(config):
        jid = failing.enqueue()
        go_on.set()
        wait_for(lambda: len(RetrySet()) == 1)
        assert jid.cancel()
    assert len(RetrySet()) == 0
    assert jid.status() == "cancelled"


def test_an_unknown_job_is_not_cancelled(config):
    assert not lookup("f" * 24).cancel()


def test_a_running_job_sees_it_within_a_second_and_has_no_result(config):
    seconds = []
    with RunningWorker(config) as worker:
        for _ in range(3):
            began.clear()
            jid = polite.enqueue()
            assert began.wait(60)
            began_at = time.monotonic()
            assert jid.cancel()
            with pytest.raises(JobFailed, match="has ended as cancelled"):
                jid.result(timeout=60)
            seconds.append(time.monotonic() - began_at)
        worker.wait()
    assert min(seconds) < 1
    assert ended == ["stopped"] * 3
    assert len(RetrySet()) == len(DeadSet()) == 0


def test_a_job_that_ends_without_noticing_it_has_succeeded(config):
    with RunningWorker(config):
        jid = deaf.enqueue()
        assert began.wait(60)
        assert jid.cancel()
        go_on.set()
        assert jid.result(timeout=60) == 7


def test_a_cancelled_job_that_fails_is_not_retried(config):
    with RunningWorker(config) as worker:
        jid = failing.enqueue(True)
        assert began.wait(60)
        assert jid.cancel()
        worker.wait()
    assert jid.status() == "cancelled"
    assert len(RetrySet()) == len(DeadSet()) == 0


def test_an_untracked_coroutine_gets_a_cancelled_error(config):
    with RunningWorker(config) as worker:
        jid = coroutine.enqueue()
        assert began.wait(60)
        jid.cancel()
        worker.wait()
    assert ended == ["cancelled"]
    assert len(RetrySet()) == 0


@pytest.mark.interrupts
@pytest.mark.usefixtures("untraced")
def test_hard_raises_in_a_thread(config):
    with RunningWorker(config) as worker:
        jid = loops.enqueue()
        assert began.wait(60)
        assert jid.cancel(hard=True)
        worker.wait()
    assert ended == ["raised"]
    assert jid.status() == "cancelled"


@pytest.mark.interrupts
@pytest.mark.usefixtures("untraced")
def test_hard_warns_of_a_job_that_it_cannot_interrupt(config, caplog, monkeypatch):
    monkeypatch.setattr(control, "GRACE_SECONDS", 0.05)
    with RunningWorker(config) as worker:
        jid = deaf.enqueue()
        assert began.wait(60)
        assert jid.cancel(hard=True)
        wait_for(lambda: any("cannot be interrupted at" in record.getMessage() for record in caplog.records))
        go_on.set()
        worker.wait()
    assert jid.status() == "cancelled"


@pytest.mark.parametrize("delay", [None, 0.01], ids=["queued", "scheduled"])
def test_a_claimed_or_held_job_or_one_whose_caller_dies_is_cancelled_at_once_and_does_not_start(config, delay):
    jid = waiting.enqueue() if delay is None else waiting.enqueue_in(delay)
    redis = Installation.of(config).redis
    store.cancel(redis, jid, hard=False, now=1.5)  # without the removal
    assert jid.info() == JobInfo(jid, "cancelled", name="waiting", changed_at=1.5)
    with pytest.raises(JobFailed, match="has ended as cancelled"):
        jid.result(timeout=0)
    assert not jid.cancel()
    with RunningWorker(config) as worker:
        wait_for(lambda: len(ScheduledSet()) == 0)
        worker.wait()
    assert ended == []
    assert jid.status() == "cancelled"


def test_a_tracked_job_that_a_short_search_does_not_find_stays_and_is_skipped(config, monkeypatch):
    jids = [waiting.enqueue() for _ in range(3)]
    assert jids[2].cancel()
    monkeypatch.setattr(reader, "SEARCH_MS", 0.0)
    assert jids[1].cancel()
    assert len(Queue("default")) == 2
    assert [jid.status() for jid in jids] == ["queued", "cancelled", "cancelled"]
    with pytest.raises(JobFailed, match="has ended as cancelled"):
        jids[1].result(timeout=0)
    with RunningWorker(config) as worker:
        worker.wait()
    assert ended == ["ran"]
    assert jids[1].status() == "cancelled"


def test_an_untracked_job_of_a_killed_worker_cannot_be_asked(config):
    redis = Installation.of(config).redis
    jid = plain.enqueue()
    lists = owners.Lists("host:1:abc", {"default": ("default",)})
    owners.beat(redis, lists, 60_000)
    redis.call("RENAME", redis.keys.queue("default"), *lists.keys(redis))
    assert jid.cancel()
    redis.call("DEL", redis.keys.alive("host:1:abc"))
    assert not jid.cancel()


@pytest.mark.parametrize("alive", [True, False])
def test_a_job_whose_worker_was_killed_is_cancelled_at_once(config, alive):
    jid = polite.enqueue()
    redis = Installation.of(config).redis
    fields = {"state": "running", "at": "1", "process": "host:1:abc", "run": "host:1:abc 1"}
    store.begin(redis, jid, 60, fields)
    redis.call("DEL", redis.keys.queue("default"))
    if alive:
        redis.call("SET", redis.keys.alive("host:1:abc"), 1)
    assert jid.cancel()
    assert jid.status() == ("running" if alive else "cancelled")
    redis.call("DEL", redis.keys.alive("host:1:abc"))
    assert jid.status() == asyncio.run(jid.astatus()) == "cancelled"
    for result in (jid.result, lambda timeout: asyncio.run(jid.aresult(timeout=timeout))):
        with pytest.raises(JobFailed, match="has ended as cancelled"):
            result(timeout=60)


def test_a_request_that_the_worker_missed_is_read_after_a_reconnect(config):
    with RunningWorker(config) as worker:
        jid = polite.enqueue()
        assert began.wait(60)
        redis = Installation.of(config).redis
        redis.call("HSET", store.job_key(redis.keys, jid), "cancel", "0")  # nothing is published
        redis.call("CLIENT", "KILL", "TYPE", "pubsub")
        worker.wait()
    assert ended == ["stopped"]
    assert jid.status() == "cancelled"
