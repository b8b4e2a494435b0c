"""A child that a job forks ends when it returns to the worker's code, as does a worker without its descriptors."""

from __future__ import annotations

import os

import pytest

from offsider.runtime import forks
from offsider.runtime.forks import (
    CAME_BACK,
    CLOSED,
    came_back,
    check_descriptors,
    end_child,
    this_process,
    worker_started,
    worker_stopped,
)

JOB = {"jid": "a" * 24, "class": "Forks"}


class Ended(BaseException):
    """In place of the end of the process."""


@pytest.fixture(autouse=True)
def process(monkeypatch):
    monkeypatch.setattr(forks, "SENTINEL", 230)
    for name in ("workers", "stray", "sentinel", "stderr"):
        monkeypatch.setattr(this_process, name, getattr(forks._Process, name))
    yield
    if this_process.sentinel >= 0:
        os.close(this_process.sentinel)


@pytest.fixture
def ended(monkeypatch):
    codes = []

    def end(code):
        codes.append(code)
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    return codes


def in_child(action) -> int:
    """Return the exit code of a forked child, which runs the action."""
    pid = os.fork()
    if pid == 0:
        os._exit(action())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_of_a_worker_is_stray_until_it_has_a_worker_of_its_own():
    assert this_process.pid == os.getpid()
    assert in_child(lambda: this_process.stray) == 0
    worker_started(owns_process=True)
    worker_started(owns_process=True)
    assert in_child(lambda: this_process.stray and this_process.pid == os.getpid() and this_process.sentinel == -1) == 1
    assert in_child(lambda: in_child(lambda: this_process.stray)) == 1
    assert in_child(lambda: worker_started(owns_process=False) or this_process.stray) == 0
    worker_stopped()
    assert in_child(lambda: this_process.stray) == 1
    worker_stopped()
    assert in_child(lambda: this_process.stray) == 0


@pytest.mark.parametrize("error, code", [(None, CAME_BACK), (ValueError("secret"), CAME_BACK), (StopIteration(7), 70)])
def test_a_returning_child_names_its_job(ended, capfd, error, code):
    worker_started(owns_process=False)
    this_process.stray = True
    with pytest.raises(Ended):
        raise_and_check(error)
    kind = " with ValueError" if isinstance(error, ValueError) else ""
    assert ended == [code]
    assert capfd.readouterr().err == (
        f"offsider: job {'a' * 24} (Forks): a forked child (process {this_process.pid}) returned to the worker{kind} "
        "and was terminated; end it with os._exit()\n"
    )


def raise_and_check(error):
    try:
        if error is not None:
            raise error
    finally:
        end_child(JOB)


def test_a_child_of_a_handler_names_no_job(ended, capfd):
    worker_started(owns_process=False)
    with pytest.raises(Ended):
        came_back()
    assert capfd.readouterr().err.startswith("offsider: a handler: a forked child")


@pytest.mark.parametrize("code, status", [(None, 0), (3, 3), (256, 0), ("bye", 1)])
def test_a_child_that_exits_has_the_code_it_asked_for(ended, capfd, code, status):
    this_process.stray = True
    with pytest.raises(Ended):
        raise_and_check(SystemExit(code))
    assert ended == [status]
    assert capfd.readouterr().err == ""


def test_a_worker_whose_descriptors_are_closed_ends(ended, capfd):
    check_descriptors()
    worker_started(owns_process=True)
    check_descriptors()
    sentinel, this_process.sentinel = this_process.sentinel, this_process.sentinel + 1
    with pytest.raises(Ended):
        check_descriptors()
    this_process.sentinel = sentinel
    assert ended == [CLOSED]
    assert "a job closed the file descriptors of this worker" in capfd.readouterr().err


def test_nothing_is_written_to_a_file_that_got_the_number_of_standard_error(ended, tmp_path):
    worker_started(owns_process=False)
    own = os.dup(2)
    with (tmp_path / "file").open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            with pytest.raises(Ended):
                came_back()
        finally:
            os.dup2(own, 2)
            os.close(own)
    assert (tmp_path / "file").read_bytes() == b""
