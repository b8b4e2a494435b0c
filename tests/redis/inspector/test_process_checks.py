"""Each fault of the workers is found where it is."""

from __future__ import annotations

import time

from offsider.inspector.finding import Severity
from tests.redis.inspector.examined import OURS, RUBYS, examined, push, register, severity, troubles


def test_workers_that_serve_all_waiting_queues_pass(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    push(raw_redis, "A", "A")
    found = examined(redis_url)
    assert troubles(found) == set()
    assert found["workers"].what == "1 worker with 5 threads, 1 busy"


def test_no_worker_at_all(redis_url):
    finding = examined(redis_url)["workers"]
    assert (finding.severity, finding.what) == (Severity.WARN, "no worker is registered")


def test_a_worker_whose_clock_is_ahead(redis_url, raw_redis):
    register(raw_redis, beat=time.time() + 300)
    finding = examined(redis_url)["beats"]
    assert finding.severity is Severity.WARN
    assert f"the clock of {OURS} is 300 s ahead" in finding.what or "299 s ahead" in finding.what


def test_a_worker_that_has_not_beaten_for_long(redis_url, raw_redis):
    register(raw_redis, beat=time.time() - 40)
    finding = examined(redis_url)["beats"]
    assert finding.severity is Severity.WARN
    assert "its last heartbeat is that old" in finding.what


def test_a_worker_without_a_reported_time_is_ignored(redis_url, raw_redis):
    register(raw_redis, beat="")
    assert severity(examined(redis_url), "beats") == "none"


def test_a_worker_far_from_the_server(redis_url, raw_redis):
    register(raw_redis, rtt_us=80_000)
    finding = examined(redis_url)["distance"]
    assert (finding.severity, OURS in finding.what) == (Severity.WARN, True)


def test_a_worker_that_has_just_started_is_not_far_yet(redis_url, raw_redis):
    register(raw_redis, rtt_us=80_000, started_at=time.time() - 3)
    assert severity(examined(redis_url), "distance") == "none"


def test_a_worker_that_cannot_interrupt_its_threads(redis_url, raw_redis):
    register(raw_redis, knows=["A"], uninterruptible="CPython 3.14.8 has a fault")
    register(raw_redis, RUBYS)
    finding = examined(redis_url)["interrupts"]
    assert finding.severity is Severity.WARN
    assert finding.what == f"jobs in threads cannot be interrupted in {OURS}: CPython 3.14.8 has a fault"
    assert "CPython 3.13" in finding.actions[0]


def test_a_worker_with_the_gil_on_a_free_threaded_build(redis_url, raw_redis):
    register(raw_redis, knows=["A"], gil="GIL off")
    assert severity(examined(redis_url), "gil") == "none"
    register(raw_redis, knows=["A"], gil="GIL on, because of slow._c")
    finding = examined(redis_url)["gil"]
    assert finding.severity is Severity.WARN
    assert finding.what == f"{OURS} on a free-threaded Python: GIL on, because of slow._c"


def test_a_ruby_process_too_old_for_the_wire_format(redis_url, raw_redis):
    register(raw_redis, knows=["A"], version="1.0.0")
    register(raw_redis, RUBYS, version="")
    finding = examined(redis_url)["wire version"]
    assert finding.severity is Severity.ERROR
    assert finding.what == f"{RUBYS} is Sidekiq 6 or older, but wire_version is 8"
    assert "redis.wire_version = 6" in finding.actions[0]
    assert severity(examined(redis_url, wire_version=6), "wire version") == "none"


def test_ruby_processes_all_newer_than_the_wire_format(redis_url, raw_redis):
    register(raw_redis, RUBYS, version="8.1.7")
    register(raw_redis, RUBYS + "2", version="8.0.0")
    finding = examined(redis_url, wire_version=7)["wire version"]
    assert finding.severity is Severity.WARN
    assert finding.what == "wire_version is 7, but all Ruby processes are Sidekiq 8 or newer"
    assert finding.actions[0] == "set redis.wire_version = 8"


def test_a_ruby_process_of_the_same_form_is_well(redis_url, raw_redis):
    register(raw_redis, RUBYS, version="8.0.1")
    assert severity(examined(redis_url), "wire version") == "none"
