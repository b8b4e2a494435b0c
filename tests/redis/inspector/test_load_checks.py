"""A system that does not keep up is found, and so is why."""

from __future__ import annotations

import json
import time

from offsider.config.config import Config
from offsider.inspector.doctor import queue_checks
from offsider.inspector.doctor.examination import examine
from offsider.inspector.finding import Severity
from tests.redis.inspector.examined import OURS, enqueue, examined, payload, register, severity


def test_all_threads_busy_while_jobs_wait(redis_url, raw_redis):
    register(raw_redis, concurrency=1, busy=1)
    assert severity(examined(redis_url), "saturation") == "none"
    enqueue(raw_redis, 300)
    finding = examined(redis_url)["saturation"]
    assert (finding.severity, finding.what) == (Severity.WARN, "1 of 1 thread busy, and jobs wait in default")
    register(raw_redis, concurrency=2, busy=1)
    assert severity(examined(redis_url), "saturation") == "none"


def test_jobs_that_run_for_hours(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    now = int(time.time())
    for tid, age in (("a", 86_400 * 2), ("b", 4 * 3_600), ("c", 50)):
        run = {"queue": "default", "payload": payload("A"), "run_at": now - age}
        raw_redis.hset(f"{OURS}:work", tid, json.dumps(run))
    finding = examined(redis_url)["long runs"]
    assert finding.what == "2 jobs running for more than 3 hours: A (2 days), A (4 hours)"
    assert finding.actions[0].startswith(f"offsider dump {OURS} logs")


def test_a_quarantine_that_fills_the_server_is_reported(redis_url, raw_redis, monkeypatch):
    assert "quarantine" not in examined(redis_url)
    monkeypatch.setattr(queue_checks, "MANY_ASIDE", 2)
    raw_redis.zadd("offsider:quarantine", {"a": 1, "b": 2})
    finding = examined(redis_url)["quarantine"]
    assert finding.what == "2 jobs in quarantine, the limit is 100,000"
    assert finding.cause == "they use memory for up to 30 days"
    config = Config()
    config.redis.url = redis_url
    monkeypatch.setattr("offsider.storage.quarantine.MAX_JOBS", 2)
    (full,) = [finding for finding in examine(config) if finding.id == "quarantine"]
    assert full.cause == "jobs that controls drop from now on are deleted permanently"
