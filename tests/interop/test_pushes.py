"""What one language pushes, a worker of the other runs."""

from __future__ import annotations

import pytest

from offsider import job
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
    processes.offsider("-q", "python")
    processes.sidekiq("-q", "ruby")


@pytest.fixture
def in_python(ruby):
    """A class in the console that pushes to HardJob, which lives in Python alone."""
    ruby("class HardJob; include Sidekiq::Job; sidekiq_options queue: 'python'; end")
    return ruby


def test_our_worker_runs_jobs_pushed_with_perform_async(in_python, seen) -> None:
    jid = in_python("HardJob.perform_async(*arguments)", arguments=ARGUMENTS)

    assert eventually(lambda: seen(jid), "a run") == [["python", ARGUMENTS, None]]


def test_our_worker_runs_jobs_pushed_with_perform_in(in_python, seen) -> None:
    jid = in_python("HardJob.perform_in(0.2, 'later')")

    assert eventually(lambda: seen(jid), "a run") == [["python", ["later"], None]]


def test_our_worker_runs_jobs_pushed_with_push_bulk(in_python, seen) -> None:
    jids = in_python("Sidekiq::Client.push_bulk('class' => HardJob, 'args' => [[1], [2], [3]])")

    for number, jid in enumerate(jids, start=1):
        assert eventually(lambda jid=jid: seen(jid), f"run {number}") == [["python", [number], None]]


def test_our_worker_runs_jobs_pushed_by_ruby_by_class_name(ruby, seen) -> None:
    jid = ruby("Sidekiq::Client.push('class' => 'HardJob', 'args' => [1], 'queue' => 'python', 'custom' => {'x' => 1})")

    assert eventually(lambda: seen(jid), "a run") == [["python", [1], None]]


def test_ruby_runs_jobs_pushed_by_class_name(client, seen) -> None:
    jid = client.push({"class": "RubyEcho", "args": ARGUMENTS, "queue": "ruby"})

    assert eventually(lambda: seen(jid), "a run") == [["ruby", ARGUMENTS, None]]


def test_ruby_runs_jobs_pushed_in_bulk(client, seen) -> None:
    jids = client.push_bulk({"class": "RubyEcho", "args": [[1], [2], [3]], "queue": "ruby"})

    for number, jid in enumerate(jids, start=1):
        assert eventually(lambda jid=jid: seen(jid), f"run {number}") == [["ruby", [number], None]]


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
