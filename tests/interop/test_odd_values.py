"""Values that Ruby's client accepts make no job malformed: it runs here, and on its way to Ruby it is only moved."""

from __future__ import annotations

import json

import pytest

from tests.interop.waiting import eventually

pytestmark = pytest.mark.needs("redis-server")

ODD = [
    *("'log_level' => 0", "'log_level' => 2", "'retry' => '5'", "'retry' => 2.5", "'backtrace' => '10'"),
    *("'dead' => 'false'", "'kwargs' => 'x'", "'kwargs' => nil", "'soft_timeout' => 'none'", "'hard_timeout' => {}"),
    *("'interrupted_count' => '2'", "'signature' => 5", "'jid' => 12345"),
]


@pytest.fixture(scope="module", autouse=True)
def worker(processes):
    return processes.offsider("-q", "python")


def test_odd_jobs_of_ruby_run_here(ruby, seen, raw_redis):
    jids = [
        ruby(f"Sidekiq::Client.push('class' => 'HardJob', 'args' => [1], 'queue' => 'python', {odd})") for odd in ODD
    ]

    for odd, jid in zip(ODD, jids, strict=True):
        assert eventually(lambda jid=jid: seen(jid), odd) == [["python", [1], None]]
    assert raw_redis.zcard("dead") == 0


def test_our_scheduler_moves_odd_jobs_of_a_queue_that_ruby_alone_serves(ruby, seen, raw_redis, processes):
    """No Ruby process runs at first: only ours can move."""
    push = (
        "Sidekiq::Client.push('class' => 'RubyEcho', 'args' => [2], 'queue' => 'ruby', 'at' => Time.now.to_f + 0.2, {})"
    )
    odd = ODD[:-1]  # the jid of the last one is that of another job
    jids = [ruby(push.format(value)) for value in odd]
    # Ruby reads Infinity, and cannot write it: its own poller would lose this job.
    raw_redis.zadd("schedule", {b'{"class":"RubyEcho","args":[2],"queue":"ruby","jid":"infinite","huge":1e999}': 1.0})
    odd, jids = [*odd, "1e999"], [*jids, "infinite"]
    eventually(lambda: raw_redis.llen("queue:ruby") == len(odd), "all of them in their queue")
    assert {json.loads(raw)["jid"] for raw in raw_redis.lrange("queue:ruby", 0, -1)} == {*jids}

    processes.sidekiq("-q", "ruby")

    for value, jid in zip(odd, jids, strict=True):
        assert eventually(lambda jid=jid: seen(jid), value) == [["ruby", [2], None]]
    assert raw_redis.zcard("dead") == 0


def test_a_failure_of_an_odd_job_is_retried_as_ruby_would(ruby, raw_redis):
    push = "Sidekiq::Client.push('class' => 'PythonFail', 'args' => [], 'queue' => 'python', {})"
    jid = ruby(push.format("'retry' => '5', 'backtrace' => '1', 'dead' => 'false', 'log_level' => 0"))

    def stored():
        found = [json.loads(raw) for raw in raw_redis.zrange("retry", 0, -1) if jid.encode() in raw]
        return found and found[0]

    retried = eventually(stored, "the retry")
    assert (retried["retry_count"], retried["retry"], retried["log_level"]) == (0, "5", 0)
    assert ruby("Sidekiq::RetrySet.new.find_job(jid).error_backtrace.size", jid=jid) == 1
