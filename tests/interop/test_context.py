"""The context of a job survives the other language: both logs name its caller, even after retries."""

from __future__ import annotations

import json

import pytest

from offsider import context
from tests.interop.waiting import eventually

pytestmark = pytest.mark.needs("redis-server")


def test_ruby_keeps_our_context_when_the_job_fails_there(client, processes, raw_redis) -> None:
    processes.sidekiq("-q", "ruby")
    with context(user="ann", correlation_id="c1"):
        jid = client.push({"class": "FailsEverywhere", "args": [], "queue": "ruby"})

    def failed():
        entries = [json.loads(raw) for raw in raw_redis.zrange("retry", 0, -1)]
        return [entry for entry in entries if entry["jid"] == jid]

    [entry] = eventually(failed, "a failure in Ruby")
    assert (entry["meta.user"], entry["correlation_id"], entry["error_class"]) == ("ann", "c1", "ArgumentError")


def test_our_worker_logs_the_context_stamped_by_ruby(ruby, processes) -> None:
    processes.offsider("-q", "python", OFFSIDER_LOG_FORMAT="json")
    stamps = "'meta.caller_id' => 'OrdersController#create', 'correlation_id' => 'c2'"
    jid = ruby(f"Sidekiq::Client.push('class' => 'HardJob', 'args' => [1], 'queue' => 'python', {stamps})")

    def reported():
        lines = [json.loads(line) for line in processes.logs().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("jid") == jid and line.get("job_status") == "done"]

    [line] = eventually(reported, "a line of the log")
    assert (line["meta.caller_id"], line["correlation_id"]) == ("OrdersController#create", "c2")
    assert 0 <= line["scheduling_latency_s"] < 120
