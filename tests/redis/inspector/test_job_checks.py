"""Stored jobs that no worker can run, and growing sets."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from offsider.inspector.finding import Severity
from tests.redis.inspector.examined import OURS, RUBYS, examined, payload, push, register, severity


def test_a_job_unknown_to_all_live_workers(redis_url, raw_redis):
    register(raw_redis, knows=["shop.Known"])
    push(raw_redis, "shop.Known", "shop.Renamed")
    raw_redis.zadd("retry", {payload("shop.Old"): 9e9})
    finding = examined(redis_url)["unknown jobs"]
    assert finding.severity is Severity.ERROR
    assert finding.what == "no live worker of their queue declares shop.Renamed, shop.Old"
    assert 'name=("new", "old")' in finding.actions[0]


def test_a_worker_of_another_queue_does_not_help(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    register(raw_redis, RUBYS, knows=["B"], queues=["mail"])
    push(raw_redis, "B")
    assert severity(examined(redis_url), "unknown jobs") == "error"
    push(raw_redis, "B", queue="mail")
    raw_redis.delete("queue:default")
    assert severity(examined(redis_url), "unknown jobs") == "none"


def test_a_ruby_process_may_run_any_job(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    register(raw_redis, RUBYS)
    push(raw_redis, "HardJob")
    assert severity(examined(redis_url), "stored jobs") == "ok"


def test_without_a_worker_the_check_is_inconclusive(redis_url, raw_redis):
    push(raw_redis, "A")
    found = examined(redis_url)
    assert (severity(found, "unknown jobs"), severity(found, "unserved")) == ("none", "error")


def test_bytes_that_are_not_a_job(redis_url, raw_redis):
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", "no job", "{")
    finding = examined(redis_url)["malformed"]
    assert (finding.severity, finding.what) == (Severity.WARN, "malformed payloads in queue:default (2)")


def test_of_many_jobs_both_ends_are_sampled(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", payload("Oldest"), *[payload("A", jid=f"{n:024}") for n in range(5000)])
    assert "Oldest" in examined(redis_url)["unknown jobs"].what


def test_a_dead_set_that_overflows(redis_url, raw_redis):
    raw_redis.zadd("dead", {f"job {n}": n for n in range(9_500)})
    finding = examined(redis_url)["dead set"]
    assert finding.severity is Severity.WARN
    assert finding.what == "the dead set has 9500 jobs, the limit is 10000"


def test_a_retry_set_that_grows(redis_url, raw_redis):
    raw_redis.zadd("retry", {json.dumps({"class": "A", "args": [n]}): 9e9 for n in range(1_000)})
    finding = examined(redis_url)["retries"]
    assert (finding.severity, finding.what) == (Severity.WARN, "1000 jobs waiting for a retry")


def test_a_day_on_which_most_runs_fail(redis_url, raw_redis):
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    raw_redis.mset({f"stat:processed:{today}": 200, f"stat:failed:{today}": 150})
    finding = examined(redis_url)["failures"]
    assert (finding.severity, finding.what) == (Severity.WARN, "150 of today's 200 runs failed")
    raw_redis.set(f"stat:failed:{today}", 50)
    assert severity(examined(redis_url), "failures") == "none"


def test_a_queue_key_of_the_wrong_type(redis_url, raw_redis, tag, redis_cli):
    raw_redis.sadd("queues", "default", "odd")
    raw_redis.set("queue:odd", "text")
    finding = examined(redis_url)["queue types"]
    assert (finding.severity, finding.actions[0]) == (
        Severity.ERROR,
        f"find the program that wrote them: {redis_cli} TYPE {tag}queue:odd",
    )


def test_a_check_that_the_server_refuses_hides_no_other(redis_url, raw_redis):
    register(raw_redis, OURS)
    raw_redis.set("dead", "a string")
    found = examined(redis_url)
    assert severity(found, "dead") == "warn"
    assert found["dead"].what.startswith("the check failed: ")
    assert severity(found, "orphans") == "ok"
