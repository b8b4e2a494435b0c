"""A job that failed on one side is read, tried again and buried by the other."""

from __future__ import annotations

import time

import pytest

from offsider.core.compression import expand_backtrace
from offsider.core.payload import decode, encode, read_stamp
from tests.interop.waiting import eventually

pytestmark = pytest.mark.needs("redis-server")

# What Sidekiq's own web page shows of a failed job.
SHOWN = """
  entry = Sidekiq::%s.new.find { |job| job.jid == jid }
  entry && {class: entry.klass, queue: entry.queue, args: entry.args, error_class: entry["error_class"],
            message: entry["error_message"], backtrace: entry.error_backtrace, count: entry["retry_count"],
            failed_at: entry["failed_at"], due_in: entry.at.to_f - Time.now.to_f}
"""


@pytest.fixture(scope="module", autouse=True)
def workers(processes) -> None:
    processes.offsider("-q", "python")
    processes.sidekiq("-q", "ruby")


@pytest.fixture
def shown(ruby):
    """The job as Ruby sees it in a set, once it is there."""
    return lambda jid, where="RetrySet": eventually(
        lambda: ruby(SHOWN % where, jid=jid), f"Ruby to see {jid} in {where}"
    )


@pytest.fixture
def stored(raw_redis):
    """The raw member of a set that holds a jid, once it is there."""

    def find(jid: str, sorted_set: str = "retry") -> bytes | None:
        return next((raw for raw in raw_redis.zrange(sorted_set, 0, -1) if jid.encode() in raw), None)

    return lambda jid, sorted_set="retry": eventually(lambda: find(jid, sorted_set), f"{jid} in {sorted_set}")


@pytest.fixture
def make_due(raw_redis, stored):
    """Makes the next attempt of a job due now; returns its stored payload."""

    def make(jid: str) -> dict:
        raw = stored(jid)
        raw_redis.zadd("retry", {raw: 1.0}, xx=True)
        return decode(raw)

    return make


def test_our_failure_is_in_rubys_retry_set_with_class_message_and_readable_backtrace(client, shown) -> None:
    jid = client.push({"class": "PythonFail", "args": [1], "queue": "python", "retry": 5, "backtrace": True})

    entry = shown(jid)

    assert (entry["class"], entry["queue"], entry["args"]) == ("PythonFail", "python", [1])
    assert (entry["error_class"], entry["message"]) == ("LookupError", "boom é <b>x</b> from Python")
    assert entry["count"] == 0
    assert abs(read_stamp(entry["failed_at"]) - time.time()) < 60
    assert 0 < entry["due_in"] < 30
    assert "python_jobs.py:" in entry["backtrace"][0]
    assert "python_fail" in entry["backtrace"][0]
    assert all(isinstance(line, str) for line in entry["backtrace"])


def test_a_job_that_failed_in_ruby_keeps_its_counts_when_retried_here(ruby, make_due, stored, seen) -> None:
    jid = ruby("FailsEverywhere.set(retry_queue: 'python').perform_async('a')")
    first = make_due(jid)

    eventually(lambda: len(seen(jid)) == 2, "the second run")
    second = eventually(lambda: (now := decode(stored(jid)))["retry_count"] == 1 and now, "the second failure")

    assert seen(jid) == [["ruby", ["a"], None], ["python", ["a"], 0]]
    assert (first["error_class"], first["error_message"]) == ("ArgumentError", "boom é <b>x</b> from Ruby")
    assert "app.rb:" in expand_backtrace(first["error_backtrace"])[0]
    assert second["error_class"] == "KeyError"
    assert second["failed_at"] == first["failed_at"]
    assert read_stamp(second["retried_at"]) > read_stamp(first["failed_at"])
    assert second["jid"] == first["jid"]
    assert second["created_at"] == first["created_at"]
    assert "python_jobs.py:" in expand_backtrace(second["error_backtrace"])[0]


def test_a_job_that_failed_here_keeps_its_counts_when_ruby_tries_it_again(client, make_due, shown, seen) -> None:
    jid = client.push({"class": "FailsEverywhere", "args": [1], "queue": "python", "retry_queue": "ruby", "retry": 3})
    first = make_due(jid)

    eventually(lambda: len(seen(jid)) == 2, "the second run")
    second = eventually(lambda: (now := shown(jid))["count"] == 1 and now, "the second failure")

    assert seen(jid) == [["python", [1], None], ["ruby", [1], 0]]
    assert second["error_class"] == "ArgumentError"
    assert second["failed_at"] == first["failed_at"]


def test_a_job_that_used_up_its_last_try_here_after_failing_in_ruby_is_dead(ruby, make_due, shown, seen) -> None:
    jid = ruby("FailsEverywhere.set(retry: 1, retry_queue: 'python').perform_async")
    make_due(jid)

    dead = shown(jid, "DeadSet")

    assert (dead["count"], dead["error_class"]) == (1, "KeyError")
    assert [run[0] for run in seen(jid)] == ["ruby", "python"]


def test_the_count_of_reschedules_survives_a_failure_in_ruby(raw_redis, stored) -> None:
    job = {"class": "FailsEverywhere", "args": [1], "jid": "7" * 24, "queue": "ruby", "retry": True}
    raw_redis.lpush("queue:ruby", encode({**job, "rescheduled_count": 7}))
    assert decode(stored(job["jid"]))["rescheduled_count"] == 7
