"""Jobs in lists without a worker, and locks that are never released."""

from __future__ import annotations

import shlex
import subprocess
import time

import pytest

from offsider.inspector.doctor import delivery_checks
from offsider.inspector.finding import Severity
from tests.redis.inspector.examined import OURS, RUBYS, examined, payload, register, severity
from tests.tagged import client_of

DEAD = "gone:9:deadbeef0000"


def leave_orphan(raw_redis):
    raw_redis.hset("offsider:owners", DEAD, '{"default": ["default"]}')
    raw_redis.lpush(f"offsider:working:{DEAD}:default:default", payload("A"))


def test_jobs_of_a_dead_process_wait_for_a_worker(redis_url, raw_redis):
    leave_orphan(raw_redis)
    finding = examined(redis_url)["orphans"]
    assert finding.severity is Severity.ERROR
    assert finding.what == f"dead processes own 1 job: {DEAD}"
    assert "offsider worker" in finding.actions[0]


def test_jobs_that_a_live_worker_requeues_are_no_finding(redis_url, raw_redis):
    leave_orphan(raw_redis)
    register(raw_redis, knows=["A"])
    assert "orphans" not in examined(redis_url)


def test_jobs_of_live_processes_are_not_orphans(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    raw_redis.lpush(f"offsider:working:{OURS}:default:default", payload("A"))
    assert severity(examined(redis_url), "orphans") == "ok"


def test_a_lock_that_never_expires(redis_url, raw_redis, tag, redis_cli):
    register(raw_redis, knows=["A"])
    raw_redis.persist(f"offsider:alive:{OURS}")
    finding = examined(redis_url)["locks"]
    assert finding.severity is Severity.ERROR
    assert finding.actions[0] == f"{redis_cli} DEL {tag}offsider:alive:{OURS}"
    raw_redis.expire(f"offsider:alive:{OURS}", 60)
    assert severity(examined(redis_url), "locks") == "ok"


@pytest.mark.needs("redis-server")
def test_the_fix_of_a_lock_works_at_every_node_of_a_cluster(cluster):
    with client_of(cluster.url) as client:
        register(client, knows=["A"])
        client.persist(f"offsider:alive:{OURS}")
        program, *words = shlex.split(examined(cluster.url)["locks"].actions[0])
        deleted = subprocess.run(
            [program, "-p", str(cluster.others()[0].port), *words], check=True, capture_output=True, text=True
        )
        assert deleted.stdout.strip() == "1"
        assert not client.exists(f"offsider:alive:{OURS}")


def test_jobs_that_were_due_long_ago(redis_url, raw_redis):
    raw_redis.zadd("schedule", {payload("A"): time.time() - 3600})
    raw_redis.zadd("retry", {payload("B"): time.time() - 3600, payload("C"): time.time() + 3600})
    finding = examined(redis_url)["scheduler"]
    assert finding.severity is Severity.ERROR
    assert finding.what == "overdue by more than a minute: 1 job of the schedule set, 1 job of the retry set"


def test_jobs_that_are_due_later_are_well(redis_url, raw_redis):
    raw_redis.zadd("schedule", {payload("A"): time.time() + 3600})
    assert severity(examined(redis_url), "scheduler") == "ok"


def test_private_lists_of_sidekiq_pro(redis_url, raw_redis):
    raw_redis.lpush(f"queue:sq|{RUBYS}|default", payload("A"))
    finding = examined(redis_url)["foreign lists"]
    assert finding.severity is Severity.WARN
    assert f"queue:sq|{RUBYS}|default" in finding.what


def test_a_queue_whose_name_is_not_utf_8(redis_url, raw_redis):
    raw_redis.lpush(b"queue:caf\xe9", payload("A"))
    finding = examined(redis_url)["queue names"]
    assert finding.severity is Severity.ERROR
    assert finding.what == "jobs wait in queues whose names are not UTF-8: caf\\xe9"


def test_clients_and_workers_that_differ_in_their_prefix(redis_url, raw_redis, tag):
    register(raw_redis, knows=["A"])
    raw_redis.sadd("shop:queues", "default")
    finding = examined(redis_url)["prefix"]
    assert finding.severity is Severity.WARN
    assert finding.what == f"there is no queue under the prefix '{tag}', but there are queues under '{tag}shop:'"


def test_two_applications_may_share_a_server(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    raw_redis.sadd("queues", "default")
    raw_redis.sadd("shop:queues", "default")
    assert severity(examined(redis_url), "prefix") == "none"


def test_an_incomplete_walk_is_reported(redis_url, raw_redis, monkeypatch):
    raw_redis.mset({f"cache:{n}": "" for n in range(20_000)})
    monkeypatch.setattr(delivery_checks, "WALK_SECONDS", 0.0)
    assert severity(examined(redis_url), "keyspace") == "ok"


def test_jobs_in_transit_to_another_server(redis_url, raw_redis):
    raw_redis.sadd("offsider:in-transit", "bulk")
    assert severity(examined(redis_url), "transit") == "none"
    raw_redis.lpush("offsider:in-transit:bulk", "m1 slow\n{}", "m2 slow\n{}")
    finding = examined(redis_url)["transit"]
    assert (finding.severity, finding.what) == (Severity.WARN, "2 jobs in transit to the server bulk")
    assert "offsider queues move FROM TO --to-server bulk" in finding.actions[0]
