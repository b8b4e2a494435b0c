"""What ties a worker to its supervisor."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
import time

import pytest

from offsider.cli.options import WorkerOptions
from offsider.cli.signals import SignalQueue
from offsider.cli.supervisor import parent_link, reexec
from offsider.cli.supervisor.fork import Forker
from offsider.cli.supervisor.parent_link import ParentLink, make_parent_link
from offsider.cli.supervisor.reexec import VARIABLE, Restart, command, inherited
from offsider.config.config import Config
from tests.waiting import wait_for


@pytest.fixture
def ends():
    both = make_parent_link()
    yield both
    for end in both:
        end.close()


def test_a_worker_reports_once_that_it_runs_and_its_stop_timeout(ends):
    supervisors, workers = ends
    assert supervisors.listen()
    assert not supervisors.ready
    workers.say_ready(7.5)
    assert supervisors.listen()
    assert supervisors.ready
    assert supervisors.stop_seconds == 7.5
    workers.close()
    assert not supervisors.listen()
    assert supervisors.ready


def test_invalid_messages_of_a_worker_are_ignored(ends):
    supervisors, workers = ends
    workers._end.sendall(b"ready soon\n")
    assert supervisors.listen()
    assert not supervisors.ready


def test_a_dead_supervisor_does_not_break_a_starting_worker(ends):
    supervisors, workers = ends
    supervisors.close()
    workers.say_ready(1)


def test_an_end_may_be_left_to_the_next_program(ends):
    supervisors, workers = ends
    number = supervisors.bequeath()
    assert os.get_inheritable(number)
    heir = ParentLink.inherit(os.dup(number), None)
    assert not os.get_inheritable(heir.fileno())
    workers.say_ready(2)
    heir.listen()
    assert heir.stop_seconds == 2
    heir.close()


@pytest.mark.parametrize("way", ["kernel", "sockets"])
def test_a_worker_gets_a_term_when_its_supervisor_dies(way, monkeypatch):
    if way == "sockets":
        monkeypatch.setattr(parent_link, "_set_death_signal", lambda: False)
    reading, writing = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(reading)
        _supervise(writing)
    os.close(writing)
    assert os.read(reading, 100) == b"tied"
    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)
    assert wait_for(lambda: os.read(reading, 100), 10) == b"terminated"
    os.close(reading)


def _supervise(writing: int) -> None:
    _, workers = ends = make_parent_link()
    if os.fork() == 0:
        ends[0].close()
        signal.signal(signal.SIGTERM, lambda *_: (os.write(writing, b"terminated"), os._exit(0)))
        workers.tie()
        os.write(writing, b"tied")
        time.sleep(20)
        os._exit(1)
    workers.close()
    time.sleep(20)
    os._exit(1)


def test_a_supervisor_that_died_before_the_worker_was_tied_is_noticed(monkeypatch):
    heard = []
    monkeypatch.setattr(os, "kill", lambda *reported: heard.append(reported))
    monkeypatch.setattr(parent_link, "_set_death_signal", lambda: True)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    supervisors, workers = make_parent_link()
    workers.tie()
    assert heard == [(os.getpid(), signal.SIGTERM)]
    supervisors.close()
    workers.close()


@pytest.fixture
def forker():
    signals = SignalQueue()
    yield Forker(WorkerOptions(), Config(), None, signals, work_as=lambda *_: 0)
    signals.close()


class Executed(Exception):
    """In place of a program that would never return."""


def test_the_next_program_finds_the_workers_and_no_signal_is_lost(forker, monkeypatch):
    supervisors, workers = make_parent_link()
    workers.say_ready(7)
    supervisors.listen()
    left = {}

    def execute(program, words):
        left.update(words=words, variable=os.environ[VARIABLE], held=signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        left["parent_link"] = os.dup(supervisors.fileno())
        raise Executed

    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(reexec.sys, "orig_argv", ["python", "-m", "offsider", "worker"])
    with pytest.raises(Executed):
        Restart().exec([forker.adopt(3, 4711, supervisors, 12.5)])
    assert left["words"][1:] == ["-m", "offsider", "worker"]
    assert {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR2} <= left["held"]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert VARIABLE not in os.environ

    (item,) = json.loads(left["variable"])
    environ = {VARIABLE: json.dumps([{**item, "parent_link": left["parent_link"]}])}
    (child,) = inherited(forker, environ)
    assert (child.slot, child.pid, child.born_at, child.parent_link.stop_seconds) == (3, 4711, 12.5, 7)
    assert environ == {}
    child.parent_link.close()
    supervisors.close()
    workers.close()


def test_the_first_process_inherits_nothing(forker):
    assert list(inherited(forker, {})) == []


@pytest.mark.parametrize("text", ["{", "[7]", "[{}]", '[{"parent_link": 9999, "stop_seconds": 1}]'])
def test_unreadable_state_is_reported_and_ignored(forker, caplog, text):
    with caplog.at_level(logging.ERROR, "offsider"):
        assert list(inherited(forker, {VARIABLE: text})) == []
    assert "cannot adopt the workers of the previous supervisor" in caplog.text


def test_a_console_script_is_executed_and_names_the_interpreter_of_its_release(monkeypatch, tmp_path):
    for release in ("1", "2"):
        (tmp_path / release / "bin").mkdir(parents=True)
        (tmp_path / release / "bin" / "offsider").touch()
    python, link = tmp_path / "1" / "bin" / "python", tmp_path / "current"
    link.symlink_to(tmp_path / "1")
    monkeypatch.setattr(reexec.sys, "executable", str(python))
    script = f"{link}/bin/offsider"
    monkeypatch.setattr(reexec.sys, "orig_argv", [str(python), script, "worker"])
    assert command() == [script, "worker"]
    # Another folder, an option of the interpreter, a module: the interpreter that the user named.
    for words in (["manage.py", "worker"], ["-X", "dev", script], ["-m", "offsider"], [f"{tmp_path}/2/bin/offsider"]):
        monkeypatch.setattr(reexec.sys, "orig_argv", ["python", *words])
        assert command() == [str(python), *words]


def test_an_interpreter_that_was_named_by_a_path_is_found_again_by_it(monkeypatch, tmp_path):
    named = tmp_path / "python"
    named.touch(0o700)
    monkeypatch.setattr(reexec.sys, "orig_argv", [str(named), "-m", "offsider"])
    assert command() == [str(named), "-m", "offsider"]
    named.chmod(0o600)
    assert command() == [reexec.sys.executable, "-m", "offsider"]


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
    assert log.getvalue() == "restart failed, the workers continue: the check took more than 60 s\n"


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
    Restart()
    expected = f"$PWD does not name the current folder: USR2 follows no symbolic link from {tmp_path / '1'}\n"
    assert log.getvalue() == (expected if warns else "")
