"""``offsider worker`` as a whole: real processes, real signals, exit codes and last words."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import redis

from tests.process.cli.commands import SHOP, offsider
from tests.process.cli.test_shards import SHARDS
from tests.process.stored import push, waiting
from tests.waiting import wait_for

JOB = """
from offsider import job
from tests.process.ledger import note

@job(name="Noting")
def noting():
    note("ran", word=__name__)
"""


# ------------------------------------------------------------------------------- starting and ending


def test_ctrl_c_twice_requeues_a_job_in_c_code_at_once(workers, stored):
    worker = workers.start("-c", "2", "-t", "600")
    push(stored, "Short", 0, 600)
    wait_for(lambda: workers.ledger.notes("start"))
    worker.send("INT")
    worker.until_says("press Ctrl-C again to stop at once")
    worker.send("INT")
    assert worker.ended() == 0, worker.output
    assert stored.llen("queue:default") == 1


def test_a_stop_that_hangs_in_the_application_still_ends_in_time(workers):
    worker = workers.start(
        "-t",
        "0",
        text="""
        import threading
        from offsider.worker.fetch.reliable import ReliableFetcher

        class Hanging(ReliableFetcher):
            def quiet(self):
                threading.Event().wait()

        def configure(config):
            config.fetcher = Hanging
        """,
        measured=False,  # coverage saves its data at os._exit, when no tracer may be alive
    )
    os.kill(worker.pid, signal.SIGTERM)  # and not the parent, which kills it 0.15 s after its own deadline
    assert worker.ended() == 1
    assert "shutdown timed out" in worker.output
    assert "offsider-stop" in worker.output


def test_the_command_equals_the_module_and_finds_a_settings_file_next_to_the_application(workers, stored):
    command = shutil.which("offsider", path=str(Path(sys.executable).parent))
    assert command, "the project is installed where the tests run"
    workers.write(JOB, "elsewhere/plain.py")
    workers.write("concurrency = 3\n[log]\nformat = 'json'\n", "elsewhere/offsider.toml")
    worker = workers.start("-g", "blue", app="elsewhere/plain.py", command=(command, "worker"))
    push(stored, "Noting")
    wait_for(lambda: workers.ledger.words("ran"))
    worker.stopped()
    lines = [json.loads(line) for line in worker.output.splitlines()]
    assert "settings of elsewhere/offsider.toml" in lines[0]["message"]
    assert any("running <Capsule default: 3 threads, queues default" in line["message"] for line in lines)


# --------------------------------------------------------------------------------------- refusing
@pytest.mark.parametrize(
    "options, environ, message",
    [
        ([], {}, "no application given: offsider worker -r MODULE"),
        (["-r", "nowhere"], {}, "cannot load nowhere: no module 'nowhere'"),
        (["-r", "plain"], {"REDIS_URL": "redis://127.0.0.1:1/0"}, "redis://127.0.0.1:1/0 cannot be reached"),
        (["-r", "plain"], {"REDIS_URL": "http://u:hunter2@h"}, "redis.url expects a URL that begins with redis://"),
    ],
)
def test_an_error_is_one_line_and_exit_code_1(workers, options, environ, message):
    workers.write(JOB, "plain.py")
    worker = workers.start(*options, app=None, environ=environ, wait=False)
    assert worker.ended() == 1
    printed = [line for line in worker.output.splitlines() if line.startswith("offsider: ")]
    assert len(printed) == 1
    assert message in printed[0]
    assert "Traceback" not in worker.output
    assert "hunter2" not in worker.output


# ------------------------------------------------------------------------------------ surroundings


def test_an_embedded_server_starts_and_stops_with_the_worker(workers):
    worker = workers.start("--embedded", text=JOB, environ={"REDIS_URL": "redis://127.0.0.1:1/0"})
    worker.until_says("embedded server: ")
    worker.until_says("--embedded starts its own server and ignores REDIS_URL")
    url = re.search(r"embedded server: (\S+)", worker.output)[1]
    with redis.Redis.from_url(url) as client:
        push(client, "Noting")
        wait_for(lambda: workers.ledger.words("ran"))
    worker.stopped()
    assert (workers.folder / ".offsider").is_dir()
    with pytest.raises(redis.ConnectionError), redis.Redis.from_url(url) as client:
        client.ping()


# ----------------------------------------------------------------------------------------- reloading
def test_a_source_change_restarts_the_worker(workers, stored):
    changing = JOB + "WORD = 'first'\nnote('loaded', word=WORD)\n"
    worker = workers.start("--reload", text=changing)
    workers.write(changing.replace("first", "second"))
    worker.until_says("reloading: app.py")
    worker.until_says("running <Capsule", times=2)
    assert workers.ledger.words("loaded") == ["first", "second"]
    worker.until_says("stopping: running jobs")

    workers.write("def broken(:\n")
    worker.until_says("starting another one after the next change")
    assert "cannot load app: SyntaxError" in worker.output
    workers.write(JOB)
    worker.until_says("running <Capsule", times=3)
    worker.until_says("stopping: running jobs", times=2)
    push(stored, "Noting")
    wait_for(lambda: workers.ledger.words("ran"))
    worker.stopped()


def test_a_change_of_the_configuration_applies_to_the_parent_too(workers):
    worker = workers.start("--reload", text=JOB)
    workers.write("[worker]\nprocesses = 1\n", "offsider.toml")
    worker.until_says("reloading: offsider.toml")
    worker.until_says("worker 1 is process ", 60)
    worker.until_says("old worker 1 ", 60)
    worker.stopped()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "offsider.toml").write_text(SHARDS)
    return tmp_path


def shown(folder, *options, **environ):
    """The output of the command; no server listens at its address."""
    ended = offsider(folder, "worker", *options, **environ)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_shard_is_shown_with_its_server_processes_and_queues(folder):
    assert shown(folder, "--dry-run", "--shard", "urgent") == [
        "shard: urgent",
        "server: main, redis://127.0.0.1:1",
        f"environment: development, settings of {folder}/offsider.toml",
        "processes: 2",
        "capsule default: 10 threads, in random order",
        "  urgent,1",
    ]
    assert shown(folder, "--dry-run", "--shard", "bulk", "-c", "1", "-p", "0")[1:] == [
        "server: bulk, redis://:***@127.0.0.1:2/0",
        f"environment: development, settings of {folder}/offsider.toml",
        "processes: 1",
        "capsule default: 1 thread, strict order",
        "  heavy",
    ]


def test_it_includes_the_configuration_by_the_application(folder):
    with (folder / "shop.py").open("a") as file:
        file.write("def configure(config):\n    config.capsule('exports', concurrency=1, queues=['csv', 'pdf,3'])\n")
    assert shown(folder, "--dry-run", "-q", "a")[-5:] == [
        "capsule default: 4 threads, strict order",
        "  a",
        "capsule exports: 1 thread, by weight",
        "  csv",
        "  pdf,3",
    ]
    assert shown(folder, "--list-queues") == ["default", "csv", "pdf"]


def test_queues_are_listed_one_a_line(folder):
    assert shown(folder, "--list-queues", "--shard", "catchall") == ["default", "mailers"]
    assert shown(folder, "--list-queues", "-q", "*") == ["*"]


def test_warnings_are_written_to_stderr(folder):
    ended = offsider(folder, "worker", "--list-queues", "--select", "name=report", OFFSIDER_ROUTING_RULES="[]")
    assert (ended.stdout, ended.stderr) == ("low\n", "")
    rules = '[["*", "default"]]'
    ended = offsider(folder, "worker", "--list-queues", "--select", "name=report", OFFSIDER_ROUTING_RULES=rules)
    assert (ended.returncode, ended.stdout) == (0, "default\n")
    assert "serves the queue default with all its jobs, including shop.resize, shop.welcome" in ended.stderr


def test_queries_select_jobs_and_rules_select_their_queues(folder):
    assert shown(folder, "--list-queues", "--select", "urgency=high") == ["urgent"]
    assert shown(folder, "--list-queues", "--select", "tags=mail", "--select", "name=report") == ["urgent", "default"]
    assert shown(folder, "--list-queues", "--select", "urgency=high", "--negate") == ["default"]
    assert shown(folder, "--list-queues", "--select", "*", OFFSIDER_ROUTING_RULES="[]") == ["default", "low"]


CHOSEN = """
    from offsider import job
    from tests.process.jobs import begin
    from tests.process.ledger import note

    @job(name="Urgent", urgency="high")
    def urgent():
        note("end", begin())

    @job(name="Beside", tags=["mail"])
    def beside():
        note("end", begin())

    @job(name="Calm")
    def calm():
        note("end", begin())
"""


def test_a_worker_runs_selected_jobs_and_warns_about_others(workers, stored):
    app = workers.write(CHOSEN)
    rules = '[["urgency=high", "first"], ["tags=mail", "first"], ["*", "last"]]'
    worker = workers.start("--select", "urgency=high", "-p", "2", app=app, environ={"OFFSIDER_ROUTING_RULES": rules})
    output = worker.until_says("which it does not select")
    assert "--select 'urgency=high' serves the queue first with all its jobs, including Beside" in output
    left = push(stored, "Calm", queue="last")
    run = [push(stored, name, queue="first") for name in ("Urgent", "Beside")]
    wait_for(lambda: {note.jid for note in workers.ledger.notes("end")} == set(run))
    assert [job["jid"] for job in waiting(stored, "last")] == [left]
    worker.stopped()
