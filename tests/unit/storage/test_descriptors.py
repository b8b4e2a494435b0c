"""A worker whose descriptors were closed under it ends before it uses the number of another's socket."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from offsider.storage import descriptors
from offsider.storage.descriptors import CLOSED, NUMBER, look, watch, watched


class Ended(BaseException):
    """In place of the end of the process."""


@pytest.fixture(autouse=True)
def unwatched(monkeypatch):
    def end(code):
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(descriptors, "watched", watched)
    before = watched.fd, watched.stderr
    watched.fd, watched.stderr = -1, None
    yield
    if watched.fd >= 0:
        os.close(watched.fd)
    watched.fd, watched.stderr = before


def test_nothing_ends_while_all_is_open():
    look()
    watch()
    fd = watched.fd
    assert fd >= NUMBER
    assert not os.get_inheritable(fd)
    look()
    watch()
    assert watched.fd == fd


@pytest.mark.parametrize("stderr", ["the same", "another", "closed", "none from the start"])
def test_a_process_without_its_descriptors_ends(stderr, capfd, tmp_path, monkeypatch):
    own = os.dup(2)
    if stderr == "none from the start":
        os.close(2)
    watch()
    os.close(watched.fd)
    if stderr == "another":
        with (tmp_path / "file").open("wb") as file:
            os.dup2(file.fileno(), 2)
    elif stderr == "closed":
        os.close(2)
    try:
        with pytest.raises(Ended) as ended:
            look()
    finally:
        os.dup2(own, 2)
        os.close(own)
        watched.fd = -1
    assert ended.value.args == (CLOSED,)
    reported = "a job closed the file descriptors of this worker" in capfd.readouterr().err
    assert reported is (stderr == "the same")
    assert stderr != "another" or (tmp_path / "file").read_bytes() == b""


def test_above_the_descriptor_limit_nothing_is_watched(monkeypatch):
    def refused(fd, command, number):
        raise OSError

    monkeypatch.setattr(fcntl, "fcntl", refused)
    watch()
    assert watched.fd == -1


def test_a_child_may_close_any_descriptor():
    watch()
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), 9 if watched.fd >= 0 else 15)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == 15
    os.close(watched.fd)
    descriptors._in_child()
    look()


def test_a_connection_is_checked_before_use():
    text = """
import os
from offsider.storage import descriptors
from offsider.storage.redis import Redis, RedisSettings
descriptors.watch()
os.closerange(3, 65536)
Redis(RedisSettings(url="redis://127.0.0.1:1"), size=1).call("PING")
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == CLOSED
    assert "its jobs run again" in ended.stderr
