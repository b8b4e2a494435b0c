"""What no live worker can run is told: class, how many, since when, and what to do."""

from __future__ import annotations

import time

import pytest

from offsider import Config
from offsider.core.payload import encode
from offsider.inspector import parked as module, parked_counts, parked_jobs
from offsider.storage import parked
from offsider.storage.parked import Seen, Wanted
from tests.redis.inspector.examined import examined, register, severity

SINCE = 1_795_216_780.0


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    yield config
    config.close()


@pytest.fixture
def park(config, raw_redis):
    """park("Resize", "a") stores a parked job, as a worker leaves it."""

    def park(name: str, jid: str, since: float = SINCE, queue: str = "media", **fields: object) -> None:
        payload = {"class": name, "args": [], "jid": jid, "queue": queue, "parked_at": int(since * 1000), **fields}
        raw_redis.zadd("schedule", {encode(payload): time.time() + 100})
        wanted = parked.wanted_by(payload)
        parked.note(config.shared_redis(), wanted, Seen(since, queue, f"{name} is not declared in this worker"), 1)

    return park


def test_nothing_is_parked(config, redis_url):
    assert (parked_jobs(config), parked_counts(config)) == ([], {})
    assert severity(examined(redis_url), "parked") == "none"


def test_parked_jobs_are_told_by_class_and_signature(config, raw_redis, park):
    park("Crop", "a")
    park("Resize", "b", signature="5ca1ab1e", app_version="2.15", queue="low")
    park("Resize", "c", SINCE - 60, signature="5ca1ab1e", app_version="2.14")
    park("Resize", "d", signature="0badcafe")
    raw_redis.zadd("schedule", {b'{"parked_at" no job': time.time() + 1, b'{"class":"J","args":[]}': time.time()})
    resize, crop, other = parked_jobs(config)
    assert (resize.name, resize.signature, resize.count, resize.is_counted) == ("Resize", "5ca1ab1e", 2, True)
    assert (resize.queues, resize.versions, resize.since) == (("low", "media"), ("2.14", "2.15"), SINCE - 60)
    assert resize.reason == "Resize is not declared in this worker"
    assert [(jobs.name, jobs.signature, jobs.count) for jobs in (crop, other)] == [
        ("Crop", "", 1),
        ("Resize", "0badcafe", 1),
    ]
    assert parked_counts(config) == {"Crop": 1, "Resize": 3}


def test_of_very_many_jobs_some_are_looked_at(config, park, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    for jid in "abc":
        park("Crop", jid)
    (crop,) = parked_jobs(config)
    assert (crop.count, crop.is_counted) == (2, False)


def test_a_kind_that_has_left_the_schedule_is_not_told(config):
    parked.note(config.shared_redis(), Wanted("Crop", ""), Seen(SINCE, "media", "why"), 1)
    assert parked_jobs(config) == []


def test_the_doctor_tells_of_a_class_once(redis_url, raw_redis, park):
    register(raw_redis, knows=["Resize"], queues=["media"])
    park("Crop", "a")
    raw_redis.sadd("queues", "media")
    raw_redis.lpush("queue:media", encode({"class": "Crop", "args": [], "jid": "b"}))
    found = examined(redis_url)
    assert (severity(found, "parked"), severity(found, "unknown jobs")) == ("bad", "none")


def test_the_doctor_says_which_how_many_since_when_and_what_to_do(redis_url, park, monkeypatch):
    park("Crop", "a", app_version="2.15")
    found = examined(redis_url)
    assert severity(found, "parked") == "bad"
    finding = found["parked"]
    assert finding.what == (
        "no live worker can run 1 job of Crop in media, since 2026-11-20 23:19 UTC, pushed by version 2.15"
    )
    assert finding.why.startswith("Crop is not declared in this worker; such jobs are parked until")
    assert "buried after 30 days" in finding.why
    assert "start workers of the release" in finding.way_out
    monkeypatch.setattr(module, "MOST", 1)
    assert "at least 1 job of Crop" in examined(redis_url)["parked"].what
