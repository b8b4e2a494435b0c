"""Expired jobs: never run, acknowledged, counted once, and visible."""

from __future__ import annotations

import time

import pytest

from offsider import job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.unique import Unique
from offsider.fleet.metrics import read_families
from offsider.inspector import DeadSet, Queue, RetrySet, ScheduledSet, Stats
from offsider.prometheus.text import text_of
from offsider.testing import RunningWorker
from tests.waiting import wait_for

PAST = {"expires_in": 60, "expiry": time.time() - 1}


@pytest.fixture
def config(config, declared):
    config.worker.timeout_seconds = 5
    return config


@pytest.fixture
def ran():
    return []


@pytest.fixture
def report(ran):
    def report(argument):
        ran.append(argument)

    return report


@pytest.fixture
def client(config, report):
    job(name="Report", retry=1)(report)
    return Client(config)


def test_an_expired_job_is_deleted_counted_and_not_run(config, client, ran, raw_redis):
    removed = []
    config.on("job_removed", removed.append)
    expired = client.push({"class": "Report", "args": ["late"], **PAST})
    client.push({"class": "Report", "args": ["in time"], "expires_in": 60})
    client.push({"class": "Report", "args": ["any time"]})
    with RunningWorker(config):
        wait_for(lambda: len(ran) == 2 and removed and Stats.read(config).processed == 2)
    assert sorted(ran) == ["any time", "in time"]
    assert [len(place) for place in (Queue("default", config), RetrySet(config), DeadSet(config))] == [0, 0, 0]
    ((raw, where, how, _),) = [(one.raw, one.where, one.how, one.server) for one in removed]
    assert expired.encode() in raw
    assert (where, how) == ("queue:default", "expire")
    assert raw_redis.hgetall("offsider:expired") == {b"Report": b"1"}
    assert not raw_redis.keys("offsider:working:*")
    assert 'sidekiq_jobs_expired_total{class="Report"} 1' in text_of(read_families(Installation.of(config)))


def test_a_retry_expires_too(config, client, ran, raw_redis):
    client.push({"class": "Report", "args": ["again"], **PAST, "retry_count": 0, "failed_at": 1})
    with RunningWorker(config):
        wait_for(lambda: raw_redis.hgetall("offsider:expired") == {b"Report": b"1"})
    assert ran == []


def test_a_job_of_rubys_free_client_expires_after_its_creation(config, client, ran, raw_redis):
    client.push({"class": "Report", "args": ["late"], "expires_in": 60, "expiry": None, "created_at": 1})
    with RunningWorker(config):
        wait_for(lambda: raw_redis.hgetall("offsider:expired"))
    assert ran == []


def test_an_expired_unique_job_frees_its_lock(config, ran, report, raw_redis):
    config.use(Unique())
    job(name="Report", extra={"unique_for": 600})(report)
    client = Client(config)
    push = {"class": "Report", "args": ["same"], "unique_for": 600, **PAST}
    assert client.push(push)
    assert not client.push(push)
    with RunningWorker(config):
        wait_for(lambda: raw_redis.hgetall("offsider:expired"))
        wait_for(lambda: not raw_redis.keys("offsider:unique:*"))
    assert client.push(push)


def test_a_scheduled_job_shows_when_it_expires(config, client):
    at = time.time() + 1000
    client.push({"class": "Report", "args": ["later"], "at": at, "expires_in": 60})
    (scheduled,) = ScheduledSet(config)
    assert scheduled.expires_at == pytest.approx(at + 60)
