"""Socket or port, and the meaning of a reply to PING."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsider.embedded.folder import Address, Answer, choose
from tests.conftest import short_folder


@contextmanager
def someone_who_says(reply: bytes):
    with short_folder() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        path = f"{folder}/server.sock"
        listening.bind(path)
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(64)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        yield Address(path)
        thread.join()


def test_the_socket_is_in_the_folder():
    assert choose(Path("/srv/jobs"), None).url == "unix:///srv/jobs/server.sock?db=0"


def test_a_path_too_long_for_a_socket_gets_a_short_one_of_its_own():
    paths = {choose(Path("/srv") / (letter * 100), None).socket_path for letter in "aab"}
    assert len(paths) == 2
    assert all(len(path) < 104 for path in paths)


def test_a_port_that_is_asked_for_is_the_url():
    assert choose(Path("/srv/jobs"), 6399).url == "redis://127.0.0.1:6399/0"
    assert choose(Path("/srv/jobs"), 0).port > 0


@pytest.mark.parametrize(
    "reply,answer",
    [
        (b"+PONG\r\n", Answer.READY),
        (b"-NOAUTH Authentication required.\r\n", Answer.READY),
        (b"-LOADING Redis is loading the dataset in memory\r\n", Answer.LOADING),
        (b"", Answer.NONE),
    ],
)
def test_a_ping_reply_shows_whether_the_server_is_ready(reply, answer):
    with someone_who_says(reply) as address:
        assert address.ask() is answer


def test_without_a_server_there_is_no_reply(tmp_path):
    assert Address(str(tmp_path / "none")).ask() is Answer.NONE
