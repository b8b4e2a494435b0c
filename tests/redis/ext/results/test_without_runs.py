"""States of jobs that an operator moves."""

from __future__ import annotations

import time

import pytest

from offsider import JobFailed, ResultTimeout, job
from offsider.config.installation import Installation
from offsider.ext.results import store
from offsider.inspector import DeadSet, Quarantine, Queue, RetrySet, ScheduledSet
from offsider.jobs import registry
from offsider.testing.running_worker import RunningWorker
from tests.waiting import wait_for

# Not in the registry of other tests; a fixture of conftest.py registers them.
with registry.isolated():

    @job(name="dies-first", track=True, retry=0)
    def dies():
        raise ValueError("no")

    @job(name="retried-first", track=True)
    def retried():
        raise ValueError("not yet")

    @job(name="waits", track=True)
    def waits():
        pass

    @job(name="untracked-one")
    def untracked():
        pass


def _run(config, declared, ends_in):
    with RunningWorker(config):
        jid = declared.enqueue()
        wait_for(lambda: len(ends_in) == 1)
    return jid


@pytest.mark.parametrize(
    "again",
    [lambda jid: DeadSet().find_job(jid).retry(), lambda _: DeadSet().retry_all(), lambda _: DeadSet().enqueue_all()],
    ids=["one", "all", "as it is"],
)
def test_a_dead_job_that_is_retried_waits_again(config, again):
    jid = _run(config, dies, DeadSet())
    assert jid.status() == "dead"
    assert again(jid)
    assert jid.status() == "queued"
    with pytest.raises(ResultTimeout, match="it is queued"):
        jid.result(timeout=0)
    assert jid.cancel()
    assert len(Queue("default")) == 0
    assert jid.status() == "cancelled"


@pytest.mark.parametrize("kill", [lambda entry: entry.kill(), lambda _: RetrySet().kill_all()], ids=["one", "all"])
def test_a_retrying_job_that_is_killed_is_dead_until_it_is_retried(config, kill):
    jid = _run(config, retried, RetrySet())
    kill(RetrySet().find_job(jid))
    assert jid.status() == "dead"
    with pytest.raises(JobFailed, match="has ended as dead"):
        jid.result(timeout=0)
    DeadSet().find_job(jid).retry()
    assert jid.status() == "queued"


def test_a_job_with_another_time_is_scheduled_for_it(config):
    redis = Installation.of(config).redis
    jid, later = waits.enqueue_in(1), time.time() + 3_600
    assert ScheduledSet().find_job(jid).reschedule(later)
    assert jid.info().due_at == later
    assert redis.call("PTTL", store.job_key(redis.keys, jid)) > 30 * 86_400_000 + 3_500_000
    assert ScheduledSet().find_job(jid).reschedule(time.time() - 1)
    assert jid.status() == "queued"  # it is due
    assert ScheduledSet().find_job(jid).add_to_queue()
    assert (jid.status(), jid.info().due_at) == ("queued", None)


def test_a_job_that_comes_back_from_quarantine_waits_again(config):
    queued, scheduled = waits.enqueue(), waits.enqueue_in(60)
    Queue("default").quarantine(Queue("default").find_job(queued))
    ScheduledSet().find_job(scheduled).quarantine()
    assert queued.status() == scheduled.status() == "discarded"
    assert Quarantine().restore_all() == 2
    assert (queued.status(), scheduled.status()) == ("queued", "scheduled")
    dead = _run(config, dies, DeadSet())
    DeadSet().find_job(dead).quarantine()
    Quarantine().restore_all()
    assert dead.status() == "dead"
