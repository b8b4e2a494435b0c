"""``offsider worker`` as a whole: real processes, real signals, exit codes and last words."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest
import redis

from tests.process.cli.commands import SHOP, offsider
from tests.process.cli.test_shards import SHARDS
from tests.process.stored import push
from tests.waiting import wait_for

MODULE = (sys.executable, "-m", "offsider", "worker")


JOB = """
from offsider import job
from tests.process.ledger import note

@job(name="Noting")
def noting():
    note("ran", word=__name__)
"""


# ------------------------------------------------------------------------------- starting and ending
@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_stop_ends_with_exit_code_0(workers, name):
    worker = workers.start()
    worker.send(name)
    assert worker.ended(10) == 0, worker.output
    assert "stopping: running jobs have 25 s" in worker.output


@pytest.mark.parametrize("call", [("Long", 30), ("Short", 0, 30)], ids=["interruptible", "in C code"])
def test_ctrl_c_twice_requeues_running_jobs_at_once(workers, stored, call):
    worker = workers.start("-c", "2", "-t", "60")
    push(stored, *call)
    wait_for(lambda: workers.ledger.notes("start"))
    worker.send("INT")
    worker.until_says("press Ctrl-C again to stop at once")
    worker.send("INT")
    assert worker.ended(10) == 0, worker.output
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
    worker.send("TERM")
    assert worker.ended(8) == 1
    assert "shutdown timed out" in worker.output
    assert "offsider-stop" in worker.output


def test_the_command_equals_the_module(workers, stored):
    command = shutil.which("offsider", path=str(Path(sys.executable).parent))
    assert command, "the project is installed where the tests run"
    worker = workers.start("-q", "default", text=JOB, command=(command, "worker"))
    push(stored, "Noting")
    wait_for(lambda: workers.ledger.words("ran"))
    worker.stopped()


@pytest.mark.parametrize(
    "file, target, module",
    [
        ("plain.py", "plain", "plain"),
        ("plain.py", "plain.py", "plain"),
        ("some/folder/plain.py", "some/folder", "plain"),
        ("some/folder/plain.py", "some/folder/plain.py", "plain"),
    ],
)
def test_an_application_is_a_module_a_file_or_a_folder(workers, stored, file, target, module):
    workers.write(JOB, file)
    worker = workers.start(app=target)
    push(stored, "Noting")
    wait_for(lambda: workers.ledger.words("ran") == [module])
    worker.stopped()


def test_a_settings_file_is_found_next_to_the_application(workers):
    workers.write(JOB, "elsewhere/plain.py")
    workers.write("concurrency = 3\n[log]\nformat = 'json'\n", "elsewhere/offsider.toml")
    worker = workers.start("-g", "blue", app="elsewhere/plain.py")
    worker.stopped()
    lines = [json.loads(line) for line in worker.output.splitlines()]
    assert "settings of elsewhere/offsider.toml" in lines[0]["message"]
    assert any("running <Capsule default: 3 threads, queues default" in line["message"] for line in lines)


def test_configure_runs_before_the_freeze(workers, stored):
    worker = workers.start(
        text=JOB
        + """
def configure(config):
    config.capsule("single", concurrency=1, queues=["alone"])
    config.server_middleware.add(lambda job: note("around", word=job.name) or (yield))
"""
    )
    push(stored, "Noting", queue="alone")
    wait_for(lambda: workers.ledger.words("ran"))
    assert workers.ledger.words("around") == ["Noting"]
    worker.stopped()


# --------------------------------------------------------------------------------------- refusing
@pytest.mark.parametrize(
    "options, environ, message",
    [
        ([], {}, "no application given: offsider worker -r MODULE"),
        (["-r", "nowhere"], {}, "cannot load nowhere: no module 'nowhere'"),
        (["-r", "plain", "-c", "0"], {}, "-c, --concurrency: worker.concurrency expects a whole number"),
        (["-r", "plain", "-q", "a", "-q", "a"], {}, "the queue 'a' is listed twice"),
        (["-r", "plain", "-C", "gone.toml"], {}, "gone.toml: configuration file not found"),
        (
            ["-r", "plain"],
            {"OFFSIDER_WORKER_CONCURRENCY": "x"},
            "OFFSIDER_WORKER_CONCURRENCY: worker.concurrency expects",
        ),
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


def test_a_broken_application_shows_its_line_and_the_traceback_on_request(workers):
    broken = "import os\nimport not_there_at_all\n"
    worker = workers.start(text=broken, wait=False)
    assert worker.ended() == 1
    assert worker.output == (
        "offsider: cannot load app: ModuleNotFoundError: No module named 'not_there_at_all'\n"
        "  at app.py:2: import not_there_at_all\n"
    )
    verbose = workers.start("-v", text=broken, wait=False)
    assert verbose.ended() == 1
    assert "Traceback (most recent call last):" in verbose.output


def test_a_stop_while_the_application_loads_is_obeyed_at_once(workers):
    # PID 1 of a container needs a handler: without one the kernel drops TERM.
    worker = workers.start(
        wait=False,
        text="""
        import threading
        from tests.process.ledger import note
        note("loading")
        threading.Event().wait(60)
        """,
    )
    wait_for(lambda: workers.ledger.notes("loading"))
    worker.send("TERM")
    assert worker.ended(10) == 0, worker.output


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux: /proc tells which signals are caught")
def test_a_running_worker_catches_every_supported_signal(workers):
    worker = workers.start()
    status = Path(f"/proc/{worker.pid}/status").read_text()
    mask = int(re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)[1], 16)
    caught = {number for number in range(1, 65) if mask >> (number - 1) & 1}
    assert {2, 15, 20, 21} <= caught
    worker.stopped()


# ------------------------------------------------------------------------------------ surroundings
def test_systemd_gets_ready_watchdog_and_stopping(workers):
    name = f"\0offsider-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        listener.settimeout(20)
        environ = {"NOTIFY_SOCKET": "@" + name[1:], "WATCHDOG_USEC": "1000000"}
        worker = workers.start(environ=environ)
        heard = [listener.recv(100).decode() for _ in range(4)]
        worker.send("TERM")
        assert worker.ended() == 0
        while heard[-1] != "STOPPING=1":
            heard.append(listener.recv(100).decode())
    assert heard[0] == "READY=1"
    assert set(heard[1:-1]) == {"WATCHDOG=1"}


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs Linux: /proc shows the title")
def test_the_process_title_shows_tag_and_busy_threads(workers, stored):
    pytest.importorskip("setproctitle")
    worker = workers.start("-g", "blue", "-c", "2", "-t", "1")
    title = Path(f"/proc/{worker.pid}/cmdline")
    wait_for(lambda: re.match(rb"offsider \S+ blue \[0 of 2 busy\]\0*$", title.read_bytes()))
    push(stored, "Long", 30)
    wait_for(lambda: b"blue [1 of 2 busy]" in title.read_bytes())
    worker.send("TSTP")
    wait_for(lambda: b"blue [1 of 2 busy] stopping" in title.read_bytes())
    worker.stopped()


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
    assert worker.output.count("stopping: running jobs") == 1

    workers.write("def broken(:\n")
    worker.until_says("cannot load app: SyntaxError")
    assert worker.runs
    workers.write(JOB)
    worker.until_says("running <Capsule", times=3)
    push(stored, "Noting")
    wait_for(lambda: workers.ledger.words("ran"))
    worker.stopped()
    assert worker.output.count("stopping: running jobs") == 3  # two children for new files, one permanent


def test_a_reloading_worker_that_was_stopped_elsewhere_stays_stopped(workers, stored):
    worker = workers.start("--reload", text=JOB)
    stored.lpush(f"{worker.identity}-signals", "TERM")
    assert worker.ended(30) == 0, worker.output


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


def test_errors_that_end_a_start_end_the_dry_run(folder):
    ended = offsider(folder, "worker", "--dry-run", "-r", "nowhere")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("offsider: cannot load nowhere")
