"""A worker of one language runs the jobs that the other pushes, and both logs name their callers."""

from __future__ import annotations

import json

import pytest

from offsider import context, job
from tests.interop.waiting import eventually

pytestmark = pytest.mark.needs("redis-server")

ARGUMENTS = [
    1,
    2**70,
    -0.5,
    1e20,
    1e-7,
    'café <b>&</b> \u2028 日本 😀 " \\ / \t \x01',
    None,
    True,
    {"a": [1.5, None, {"ü": []}], "": {}},
    [[[[]]]],
]


@pytest.fixture(scope="module", autouse=True)
def workers(processes) -> None:
    processes.offsider("-q", "python", OFFSIDER_LOG_FORMAT="json")
    processes.sidekiq("-q", "ruby")


@pytest.fixture
def in_python(ruby):
    """A class in the console that pushes to HardJob, which lives in Python alone."""
    ruby("class HardJob; include Sidekiq::Job; sidekiq_options queue: 'python'; end")
    return ruby


def test_our_worker_runs_jobs_pushed_with_perform_async(in_python, seen) -> None:
    jid = in_python("HardJob.perform_async(*arguments)", arguments=ARGUMENTS)

    assert eventually(lambda: seen(jid), "a run") == [["python", ARGUMENTS, None]]


def test_our_worker_runs_jobs_pushed_by_ruby_by_class_name(ruby, seen) -> None:
    jid = ruby("Sidekiq::Client.push('class' => 'HardJob', 'args' => [1], 'queue' => 'python', 'custom' => {'x' => 1})")

    assert eventually(lambda: seen(jid), "a run") == [["python", [1], None]]


def test_ruby_runs_jobs_pushed_by_class_name(client, seen) -> None:
    jid = client.push({"class": "RubyEcho", "args": ARGUMENTS, "queue": "ruby"})

    assert eventually(lambda: seen(jid), "a run") == [["ruby", ARGUMENTS, None]]


@pytest.mark.parametrize("level", ["warning", "critical", "ERROR"])
def test_ruby_runs_jobs_with_a_python_log_level(level, client, seen) -> None:
    jid = client.push({"class": "RubyEcho", "args": [level], "queue": "ruby", "log_level": level})

    assert eventually(lambda: seen(jid), "a run") == [["ruby", [level], None]]


def test_ruby_runs_a_job_that_is_declared_here_as_shared(client, seen) -> None:
    @job(name="RubyEcho", queue="ruby", shared_with_ruby=True)
    def ruby_echo(number: int, text: str = "none") -> None: ...

    jid = ruby_echo.via(client).enqueue(7, text="in its place")

    assert eventually(lambda: seen(jid), "a run") == [["ruby", [7, "in its place"], None]]


def test_ruby_counts_the_jobs_of_both_sides(client, ruby, seen) -> None:
    before = ruby("Sidekiq::Stats.new.processed")
    jid = client.push({"class": "HardJob", "args": [], "queue": "python"})
    eventually(lambda: seen(jid), "a run")

    eventually(lambda: ruby("Sidekiq::Stats.new.processed") > before, "the next heartbeat")


def test_ruby_keeps_our_context_when_the_job_fails_there(client, raw_redis) -> None:
    with context(user="ann", correlation_id="c1"):
        jid = client.push({"class": "FailsEverywhere", "args": [], "queue": "ruby"})

    def failed():
        entries = [json.loads(raw) for raw in raw_redis.zrange("retry", 0, -1)]
        return [entry for entry in entries if entry["jid"] == jid]

    [entry] = eventually(failed, "a failure in Ruby")
    assert (entry["meta.user"], entry["correlation_id"], entry["error_class"]) == ("ann", "c1", "ArgumentError")


def test_our_worker_logs_the_context_stamped_by_ruby(ruby, processes) -> None:
    stamps = "'meta.caller_id' => 'OrdersController#create', 'correlation_id' => 'c2'"
    jid = ruby(f"Sidekiq::Client.push('class' => 'HardJob', 'args' => [1], 'queue' => 'python', {stamps})")

    def reported():
        lines = [json.loads(line) for line in processes.logs().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("jid") == jid and line.get("job_status") == "done"]

    [line] = eventually(reported, "a line of the log")
    assert (line["meta.caller_id"], line["correlation_id"]) == ("OrdersController#create", "c2")
    assert 0 <= line["scheduling_latency_s"] < 120
