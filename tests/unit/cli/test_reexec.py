"""The parent checks the new code, executes itself again, and finds its workers."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
import time

import pytest

from offsider.cli.parent import reexec, starting
from offsider.cli.parent.reexec import VARIABLE, Inherited, Restart, inherited
from offsider.cli.parent.starting import Child
from offsider.cli.parent.worker_process import command
from offsider.worker.alive.parent_link import ParentLink, WorkerLink, make_link


def test_the_next_program_finds_the_workers_and_no_signal_is_lost(monkeypatch):
    link, end = make_link()
    link.report = "{}"
    left = {}

    def execute(program, words):
        left.update(words=words, file=os.dup(int(os.environ[VARIABLE])), fd=os.dup(link.fileno()))
        left["held"] = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        raise OSError("a test")

    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(starting.sys, "orig_argv", ["python", "-m", "offsider", "worker"])
    Restart().exec([Child(3, 4711, link, 12.5)])
    assert left["words"][1:] == ["-m", "offsider", "worker"]
    assert {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR2} <= left["held"]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert VARIABLE not in os.environ
    assert not os.get_inheritable(link.fileno()), "the restart has failed, so later programs must not keep it open"

    environ = {VARIABLE: str(left["file"])}
    (item,) = inherited(environ)
    assert item == Inherited(3, 4711, link.fileno(), 12.5, "{}")
    assert environ == {}
    heir = WorkerLink.inherit(left["fd"])
    assert not os.get_inheritable(heir.fileno())
    for each in (heir, link, end):
        each.close()


def test_the_first_process_inherits_nothing():
    assert inherited({}) == []


def test_workers_are_adopted_from_a_version_with_other_fields(tmp_path):
    (tmp_path / "left").write_text('[{"pid": 4711, "link": 5, "slot": 1, "mood": "new"}]')
    with (tmp_path / "left").open() as file:
        assert inherited({VARIABLE: str(os.dup(file.fileno()))}) == [Inherited(slot=1, pid=4711, link=5)]


def test_workers_that_cannot_be_adopted_stop(caplog, tmp_path):
    link, end = make_link()
    worker = ParentLink(end)
    for fields in ({"link": os.dup(link.fileno())}, {"link": "another kind of link"}, {}):
        (tmp_path / "left").write_text(json.dumps([{"pid": 4711} | fields]))
        assert inherited({VARIABLE: str(os.open(tmp_path / "left", os.O_RDONLY))}) == []
    link.close()
    assert worker.closed(), "the parent has no other end, so the worker stops"
    assert caplog.text.count("cannot adopt the workers of the previous parent") == 3
    worker.close()


@pytest.mark.parametrize("text", ["{", "nonsense", "9999"])
def test_unreadable_state_is_reported_and_ignored(caplog, tmp_path, text):
    if text == "{":
        (tmp_path / "left").write_text(text)
        text = str(os.open(tmp_path / "left", os.O_RDONLY))
    with caplog.at_level(logging.ERROR, "offsider"):
        assert inherited({VARIABLE: text}) == []
    assert "cannot adopt the workers of the previous parent" in caplog.text


def test_a_console_script_is_executed_and_names_the_interpreter_of_its_release(monkeypatch, tmp_path):
    for release in ("1", "2"):
        (tmp_path / release / "bin").mkdir(parents=True)
        (tmp_path / release / "bin" / "offsider").touch()
    python, link = tmp_path / "1" / "bin" / "python", tmp_path / "current"
    link.symlink_to(tmp_path / "1")
    monkeypatch.setattr(starting.sys, "executable", str(python))
    script = f"{link}/bin/offsider"
    monkeypatch.setattr(starting.sys, "orig_argv", [str(python), script, "worker"])
    assert command() == [script, "worker"]
    # Another folder, an option of the interpreter, a module: the interpreter that the user named.
    for words in (["manage.py", "worker"], ["-X", "dev", script], ["-m", "offsider"], [f"{tmp_path}/2/bin/offsider"]):
        monkeypatch.setattr(starting.sys, "orig_argv", ["python", *words])
        assert command() == [str(python), *words]


def test_an_interpreter_that_was_named_by_a_path_is_found_again_by_it(monkeypatch, tmp_path):
    named = tmp_path / "python"
    named.touch(0o700)
    monkeypatch.setattr(starting.sys, "orig_argv", [str(named), "-m", "offsider"])
    assert command() == [str(named), "-m", "offsider"]
    named.chmod(0o600)
    assert command() == [starting.sys.executable, "-m", "offsider"]


def test_a_check_that_hangs_is_cancelled_at_its_deadline(monkeypatch):
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    monkeypatch.setattr(logging.getLogger("offsider"), "handlers", [handler])
    monkeypatch.setattr(reexec, "command", lambda: [sys.executable, "-c", "import time; time.sleep(1000)"])
    restart = Restart()
    restart.cancel_overdue(time.monotonic())
    restart.check()
    pid, due_at = restart.pid, restart.due_at
    assert 0 < due_at - time.monotonic() <= 60
    restart.cancel_overdue(due_at - 1)
    assert restart.pid == pid
    restart.cancel_overdue(due_at)
    restart.cancel_overdue(due_at + 1)
    assert restart.pid == 0
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert log.getvalue().endswith("restart failed, the workers continue: the check took more than 60 s\n")
    assert log.getvalue().count("restart failed") == 1


@pytest.mark.parametrize("named, warns", [(None, True), ("/", True), ("link", False)])
def test_a_start_folder_that_follows_no_link_is_reported(monkeypatch, tmp_path, named, warns):
    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger("offsider"), "handlers", [logging.StreamHandler(log)])
    (tmp_path / "1").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "1")
    monkeypatch.chdir(tmp_path / "1")
    if named is None:
        monkeypatch.delenv("PWD", raising=False)
    else:
        monkeypatch.setenv("PWD", str(tmp_path / named))
    monkeypatch.setattr(reexec, "command", lambda: ["true"])
    restart = Restart()
    assert log.getvalue() == ""
    restart.check()
    restart.cancel()
    expected = f"$PWD does not name the current folder: USR2 follows no symbolic link from {tmp_path / '1'}\n"
    assert (expected in log.getvalue()) == warns
