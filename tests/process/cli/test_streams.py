"""Standard streams that are closed, full or broken, that other code has taken, or that lack characters."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from offsider.embedded.folder import free_port
from tests.process.stored import push, push_raw
from tests.process.workers import MODULE, ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")

OFFSIDER = (sys.executable, "-m", "offsider")


def through(redirections: str, command: tuple[str, ...]) -> tuple[str, ...]:
    return "sh", "-c", f'{"" if "|" in redirections else "exec "}"$@" {redirections}', "sh", *command


#: Shell redirections of a worker.
STREAMS = [">&-", ">/dev/full 2>/dev/full", "3>&1 >&- 2>&-"]


def test_a_worker_runs_jobs_and_stops_whatever_its_streams_are(workers, stored, ledger):
    cases = [*((redirections, ()) for redirections in STREAMS), ("<&- >&- 2>&-", ("--processes", "1"))]
    started = []
    for number, (redirections, options) in enumerate(cases):
        command = through(redirections, MODULE)
        worker = workers.start("-c", "1", "-q", f"q{number}", *options, command=command, wait=False)
        started.append((redirections, worker, push(stored, "Short", 1, queue=f"q{number}")))
    for redirections, worker, jid in started:
        wait_for(lambda: jid in ledger.counts("end") or not worker.runs, 60)  # noqa: B023  # called at once
        assert jid in ledger.counts("end"), (redirections, worker.output)
        worker.send("TERM")
    for redirections, worker, _ in started:
        assert worker.ended() == 0, (redirections, worker.output)


def test_a_descriptor_that_other_code_has_taken_is_left_alone(workers, stored, ledger, tmp_path):
    """Standard output was closed, and a file was opened before the program: no line is written into the file."""
    (tmp_path / "site").mkdir()
    opens = f"import os\nos.set_inheritable(os.open({str(tmp_path / 'data')!r}, os.O_RDWR | os.O_CREAT), True)\n"
    (tmp_path / "site" / "sitecustomize.py").write_text(opens)
    environ = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)])}
    worker = workers.start("-c", "1", command=through(">&-", MODULE), wait=False, environ=environ, measured=False)
    jid = push(stored, "Short", 1)
    wait_for(lambda: jid in ledger.counts("end") or not worker.runs, 40)
    assert jid in ledger.counts("end"), worker.output
    worker.send("TERM")
    worker.ended()
    assert (tmp_path / "data").read_bytes() == b""


def run(url: str, *words: str, redirections: str = "", **environ: str) -> subprocess.CompletedProcess[bytes]:
    given = os.environ | {"REDIS_URL": url, "PYTHONPATH": str(ROOT / "src")} | environ
    command = through(redirections, (*OFFSIDER, *words))
    return subprocess.run(command, capture_output=True, env=given, check=False, timeout=60)


def test_commands_work_with_closed_and_full_streams(stored, url):
    push_raw(stored, b"{}", queue="mail")
    for redirections, word in ((">&-", "queues"), ("<&- >&- 2>&-", "stats")):
        assert run(url, word, redirections=redirections).returncode == 0, (redirections, word)
    full = run(url, "queues", redirections=">/dev/full")
    reason = b"offsider: cannot write the output: No space left on device\n"
    assert (full.returncode, full.stderr) == (1, reason)
    assert run(url, "queues", redirections=">/dev/full 2>/dev/full").returncode == 1
    assert run(url, "queues", redirections="| head -c 0").stderr == b""


@pytest.mark.parametrize("redirections", ["<&- >&- 2>&-", ">unread"])
def test_the_web_ui_serves_whatever_its_streams_are(url, tmp_path, redirections):
    os.mkfifo(tmp_path / "unread")
    reading = os.open(tmp_path / "unread", os.O_RDWR)  # a pipe that is full, and that is not read
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        while True:
            os.write(reading, b"x" * 4096)
    port = free_port()
    environ = os.environ | {"REDIS_URL": url, "PYTHONPATH": str(ROOT / "src")}
    command = through(redirections, (*OFFSIDER, "web", "--port", str(port)))
    process = subprocess.Popen(command, env=environ, cwd=tmp_path)
    try:

        def answers() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_for(lambda: answers() or process.poll() is not None, 40)
        assert process.poll() is None
        request = f"http://127.0.0.1:{port}/fleet"
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reading)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_can_have_any_encoding(stored, url, encoding):
    push_raw(stored, b'{"class": "A", "args": [], "jid": "1", "queue": "x"}', queue="\u00fc-\u65e5\u672c")
    ended = run(url, "queues", PYTHONIOENCODING=encoding)
    assert (ended.returncode, ended.stderr) == (0, b"")
    if encoding != "ascii":  # click writes UTF-8 instead
        assert re.search(rb"\xfc-\\u65e5\\u672c", ended.stdout)
