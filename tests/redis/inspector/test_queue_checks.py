"""Queues that no worker serves, that are paused, or whose jobs wait for long are found."""

from __future__ import annotations

import pytest

from offsider.inspector.doctor import queue_checks
from offsider.inspector.doctor.queue_checks import QUEUE_CHECKS
from offsider.inspector.finding import Severity
from tests.redis.inspector.examined import enqueue, examined, push, register, severity


def test_an_unserved_queue(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    push(raw_redis, "A", "A", queue="mail")
    finding = examined(redis_url)["unserved"]
    assert finding.severity is Severity.ERROR
    assert finding.what == "no worker serves mail (2 jobs waiting)"
    assert "-q mail" in finding.actions[0]


def test_a_queue_that_only_a_quiet_worker_serves(redis_url, raw_redis):
    register(raw_redis, knows=["A"], quiet="true")
    push(raw_redis, "A")
    assert severity(examined(redis_url), "unserved") == "error"


def test_an_empty_queue_needs_no_worker(redis_url, raw_redis):
    register(raw_redis)
    raw_redis.sadd("queues", "seldom")
    assert severity(examined(redis_url), "unserved") == "none"


def test_a_queue_that_was_forgotten_after_it_was_paused(redis_url, raw_redis):
    register(raw_redis)
    push(raw_redis, "A")
    raw_redis.sadd("paused", "default", "empty")
    finding = examined(redis_url)["paused"]
    assert finding.severity is Severity.WARN
    assert finding.what == "default is paused (1 job waiting)"
    assert finding.actions[0] == "offsider queues resume default"


@pytest.mark.parametrize("age, expected", [(0, "ok"), (300, "warn"), (36_000, "error")])
def test_jobs_that_wait_for_long(redis_url, raw_redis, age, expected):
    register(raw_redis, knows=["A"])
    enqueue(raw_redis, age)
    assert severity(examined(redis_url), "waiting") == expected


def test_the_longest_wait_is_reported_first(redis_url, raw_redis):
    register(raw_redis, queues=["*"])
    enqueue(raw_redis, 130)
    enqueue(raw_redis, 36_100, queue="mail", jobs=1)
    enqueue(raw_redis, 3 * 86_400, queue="paused")
    raw_redis.sadd("paused", "paused")
    finding = examined(redis_url)["waiting"]
    shown = "the next job has waited for more than an hour: mail (10 hours, 1 job), default (2 minutes, 3 jobs)"
    assert finding.what == shown


def test_an_unserved_queue_is_reported_once(redis_url, raw_redis):
    enqueue(raw_redis, 36_000)
    found = examined(redis_url)
    assert (severity(found, "waiting"), severity(found, "unserved")) == ("ok", "error")


def test_seconds_are_formatted():
    assert queue_checks.span(42.5) == "42 seconds"


def test_every_check_is_among_the_checks():
    named = {name for name in vars(queue_checks) if name.startswith("check_")}
    assert {check.__name__ for check in QUEUE_CHECKS} == named
