"""Jobs that no live worker can run are reported: class, count, age, and next step."""

from __future__ import annotations

import time

import pytest

from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.inspector import stranded as module, stranded_counts, stranded_jobs
from offsider.inspector.finding import Severity
from offsider.storage import stranded
from tests.redis.inspector.examined import examined

SINCE = 1_795_216_780.0


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
    assert "stranded" not in examined(redis_url)


def test_stranded_jobs_are_grouped_by_class(config, raw_redis, strand):
    strand("Crop", "a")
    strand("Resize", "b", signature="5ca1ab1e", app_version="2.15", queue="low")
    strand("Resize", "c", SINCE - 60, signature="5ca1ab1e", app_version="2.14")
    strand("Resize", "d", signature="0badcafe")
    raw_redis.zadd("schedule", {b'{"stranded_at" no job': time.time() + 1, b'{"class":"J","args":[]}': time.time()})
    resize, crop = stranded_jobs(config)
    assert (resize.name, resize.count, resize.is_counted) == ("Resize", 3, True)
    assert (resize.queues, resize.versions, resize.since) == (("low", "media"), ("2.14", "2.15"), SINCE - 60)
    assert resize.reason == "Resize is not declared in this worker"
    assert (crop.name, crop.count) == ("Crop", 1)
    assert stranded_counts(config) == {"Crop": 1, "Resize": 3}


def test_very_many_jobs_are_sampled(config, strand, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    for jid in "abc":
        strand("Crop", jid)
    (crop,) = stranded_jobs(config)
    assert (crop.count, crop.is_counted) == (2, False)


def test_a_group_that_left_the_schedule_is_not_reported(config):
    stranded.note(Installation.of(config).redis, "Crop", "why")
    assert stranded_jobs(config) == []


def test_the_doctor_reports_class_count_age_and_next_step(redis_url, strand, monkeypatch):
    strand("Crop", "a", app_version="2.15")
    finding = examined(redis_url)["stranded"]
    assert (finding.severity, finding.subject, finding.numbers) == (Severity.ERROR, "Crop", {"jobs": 1})
    assert finding.what == "Crop: no live worker can run 1 job in media, pushed by version 2.15"
    assert finding.cause.startswith("Crop is not declared in this worker; they wait until")
    assert "are dead after 30 days" in finding.cause
    assert "start workers of the release" in finding.actions[0]
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    assert "at least 1 job in media" in examined(redis_url)["stranded"].what
