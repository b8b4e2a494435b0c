"""A child forked by a job that returns into our code ends there and notifies the worker."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from offsider.runtime import forks
from offsider.runtime.forks import CAME_BACK, Return, Returns, came_back, here, report_no_more, report_to

JOB = ("a" * 24, "Forks")


class Ended(BaseException):
    """In place of the end of the process."""


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch):
    monkeypatch.setattr(forks, "_worker", forks._Worker())


@pytest.fixture
def ended(monkeypatch):
    codes = []

    def end(code):
        codes.append(code)
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    return codes


@pytest.fixture
def returns():
    made = Returns()
    report_to(made, lambda: None)
    yield made
    report_no_more(made)


def come_back(error: BaseException | None = None):
    if error is None:
        with pytest.raises(Ended):
            came_back(*JOB)
        return
    with pytest.raises(Ended):
        raise_and_come_back(error)


def raise_and_come_back(error: BaseException):
    try:
        raise error
    finally:
        came_back(*JOB)


def test_a_child_is_detected_by_its_pid():
    assert here.pid == os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps([here.pid, os.getpid(), here.stray]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(os.read(reading, 100)) == [child, child, False]
    assert here.pid == os.getpid()
    os.close(reading)
    os.close(writing)


def test_a_returning_child_names_its_job(returns, ended):
    come_back()
    come_back(ValueError("secret"))
    come_back(StopIteration(7))
    assert returns.wait(5) == [Return(here.pid, "a" * 24, "Forks", error) for error in ("", "ValueError", "")]
    assert ended == [CAME_BACK] * 3


def test_a_child_of_a_handler_names_no_job(returns, ended):
    with pytest.raises(Ended):
        came_back()
    assert returns.wait(5) == [Return(here.pid, "", "", "")]


@pytest.mark.parametrize("code, status", [(None, 0), (3, 3), (256, 0), ("bye", 1)])
def test_a_child_that_exits_has_the_code_it_asked_for(ended, code, status):
    come_back(SystemExit(code))
    assert ended == [status]


def test_a_child_that_closed_its_descriptors_writes_into_no_file_of_others(returns, ended, tmp_path):
    own = os.dup(returns._writing)
    with (tmp_path / "file").open("wb") as file:
        os.dup2(file.fileno(), returns._writing)
        come_back()
    assert (tmp_path / "file").read_bytes() == b""
    os.dup2(own, returns._writing)
    os.close(own)
    assert ended == [CAME_BACK]


def test_reports_beyond_the_pipe_capacity_are_dropped_without_blocking(ended, monkeypatch):
    monkeypatch.setattr(forks, "_PATIENCE_MS", 1)
    returns = Returns()
    report_to(returns, lambda: None)
    for _ in range(3000):
        come_back()
    assert 100 < sum(len(some) for some in iter(lambda: returns.wait(0), [])) < 3000
    assert len(ended) == 3000
    report_no_more(returns)


@pytest.mark.parametrize(
    "job, named",
    [
        ({"jid": "b1", "class": "J"}, ("b1", "J")),
        (SimpleNamespace(payload={"jid": "b1", "class": "J"}), ("b1", "J")),
        ({}, ("", "")),
        (None, ("", "")),
    ],
)
def test_a_child_ends_after_the_code_that_forked_it_and_names_the_job_of_that(monkeypatch, job, named):
    """In this process, because coverage of a child is lost when its parent is killed."""
    ended = []
    monkeypatch.setattr(forks, "came_back", lambda *reported: ended.append(reported))
    assert forks.call(len, "ab", job=job) == 2
    assert ended == []

    def fork(text):
        monkeypatch.setattr(here, "pid", here.pid + 1)
        monkeypatch.setattr(here, "stray", True)
        return len(text)

    assert forks.call(fork, "ab", job=job) == 2
    assert ended == [named]
    assert forks.call(len, "ab", job=job) == 2  # a listener in the child
    assert ended == [named]


def test_a_wake_up_ends_the_wait(returns):
    returns.wake()
    assert returns.wait(60) == []
    assert returns.wait(0) == []


def test_the_worker_is_notified_of_each_fork():
    heard, returns, other = [], Returns(), Returns()
    report_to(returns, lambda: heard.append(here.pid))
    report_no_more(other)
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    assert heard == [os.getpid()] * 2
    report_no_more(returns)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert len(heard) == 2


def test_without_a_worker_a_child_still_ends(ended):
    come_back()
    assert ended == [CAME_BACK]


def test_a_child_of_a_worker_is_stray_until_it_has_a_worker_of_its_own(returns):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = here.stray
        report_to(Returns(), lambda: None)
        os.write(writing, json.dumps([before, here.stray]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(os.read(reading, 100)) == [True, False]
    assert not here.stray
    os.close(reading)
    os.close(writing)
