"""The locks and files by which processes agree about one server."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager

import pytest

from offsider.core.errors import ConfigurationError
from offsider.embedded.folder import Address, Answer, Folder
from tests.conftest import short_folder

HOLD = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "made" / "here")


def test_a_stored_address_is_read_back_unless_it_is_damaged(folder):
    assert folder.read_address() == Address()
    folder.write_address(Address(port=6399))
    assert folder.read_address() == Address(port=6399)
    (folder.path / "address.json").write_text("[]")
    assert folder.read_address() == Address()


def test_a_pid_file_may_be_missing_or_damaged(folder):
    assert folder.server_pid() is None
    folder.pid_file.write_text("12 34")
    assert folder.server_pid() is None
    folder.pid_file.write_text("12\n")
    assert folder.server_pid() == 12


def test_a_file_in_place_of_the_folder_is_reported(tmp_path):
    (tmp_path / ".offsider").touch()
    with pytest.raises(ConfigurationError, match=r"cannot create the folder .*\.offsider"):
        Folder(tmp_path / ".offsider")


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


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o710])
def test_an_existing_folder_is_closed_to_other_users(folder, mode):
    os.close(folder.claim_life())
    with folder.locked():
        pass
    folder.path.chmod(mode)
    Folder(folder.path)
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_an_open_folder_with_other_files_is_refused_and_left_as_it_is(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "manage.py").touch()
    with pytest.raises(ConfigurationError, match=r"open to other users.*run chmod 700"):
        Folder(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    tmp_path.chmod(0o700)
    Folder(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which can be two users")
def test_a_server_of_another_user_gets_no_request():
    with short_folder() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        os.chown(folder, 12345, 12345)
        path = f"{folder}/server.sock"
        os.seteuid(12345)
        try:
            listening.bind(path)
            listening.listen()
        finally:
            os.seteuid(0)
        with pytest.raises(ConfigurationError, match=r"belongs to another user \(uid 12345\)"):
            Address(path).ask()
        connection, _ = listening.accept()
        assert connection.recv(64) == b""
        connection.close()


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
