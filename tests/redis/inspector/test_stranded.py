"""Jobs that no live worker can run are reported: class, count, age, and next step."""

from __future__ import annotations

import time

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.inspector import stranded as module, stranded_counts, stranded_jobs
from offsider.storage import stranded
from tests.redis.inspector.examined import examined, register, severity

SINCE = 1_795_216_780.0


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    yield config
    Installation.of(config).close()


@pytest.fixture
def strand(config, raw_redis):
    """strand("Resize", "a") stores a stranded job, as a worker leaves it."""

    def strand(name: str, jid: str, since: float = SINCE, queue: str = "media", **fields: object) -> None:
        payload = {"class": name, "args": [], "jid": jid, "queue": queue, "stranded_at": int(since * 1000), **fields}
        raw_redis.zadd("schedule", {encode(payload): time.time() + 100})
        stranded.note(Installation.of(config).redis, name, f"{name} is not declared in this worker")

    return strand


def test_nothing_is_stranded(config, redis_url):
    assert (stranded_jobs(config), stranded_counts(config)) == ([], {})
    assert severity(examined(redis_url), "stranded") == "none"


def test_stranded_jobs_are_grouped_by_class_and_signature(config, raw_redis, strand):
    strand("Crop", "a")
    strand("Resize", "b", signature="5ca1ab1e", app_version="2.15", queue="low")
    strand("Resize", "c", SINCE - 60, signature="5ca1ab1e", app_version="2.14")
    strand("Resize", "d", signature="0badcafe")
    raw_redis.zadd("schedule", {b'{"stranded_at" no job': time.time() + 1, b'{"class":"J","args":[]}': time.time()})
    resize, crop, other = stranded_jobs(config)
    assert (resize.name, resize.signature, resize.count, resize.is_counted) == ("Resize", "5ca1ab1e", 2, True)
    assert (resize.queues, resize.versions, resize.since) == (("low", "media"), ("2.14", "2.15"), SINCE - 60)
    assert resize.reason == "Resize is not declared in this worker"
    assert [(jobs.name, jobs.signature, jobs.count) for jobs in (crop, other)] == [
        ("Crop", "", 1),
        ("Resize", "0badcafe", 1),
    ]
    assert stranded_counts(config) == {"Crop": 1, "Resize": 3}


def test_very_many_jobs_are_sampled(config, strand, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    for jid in "abc":
        strand("Crop", jid)
    (crop,) = stranded_jobs(config)
    assert (crop.count, crop.is_counted) == (2, False)


def test_a_group_that_left_the_schedule_is_not_reported(config):
    stranded.note(Installation.of(config).redis, "Crop", "why")
    assert stranded_jobs(config) == []


def test_the_doctor_reports_a_class_once(redis_url, raw_redis, strand):
    register(raw_redis, knows=["Resize"], queues=["media"])
    strand("Crop", "a")
    raw_redis.sadd("queues", "media")
    raw_redis.lpush("queue:media", encode({"class": "Crop", "args": [], "jid": "b"}))
    found = examined(redis_url)
    assert (severity(found, "stranded"), severity(found, "unknown jobs")) == ("error", "none")


def test_the_doctor_reports_class_count_age_and_next_step(redis_url, strand, monkeypatch):
    strand("Crop", "a", app_version="2.15")
    found = examined(redis_url)
    assert severity(found, "stranded") == "error"
    finding = found["stranded"]
    assert finding.what == (
        "no live worker can run 1 job of Crop in media, since 2026-11-20 23:19 UTC, pushed by version 2.15"
    )
    assert finding.cause.startswith("Crop is not declared in this worker; such jobs wait until")
    assert "are dead after 30 days" in finding.cause
    assert "start workers of the release" in finding.actions[0]
    monkeypatch.setattr(module, "MOST", 1)
    assert "at least 1 job of Crop" in examined(redis_url)["stranded"].what
