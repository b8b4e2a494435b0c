"""The files of one embedded server, its address, and the locks that coordinate the processes that use it.

======================  ==========================================================================
file                    meaning
======================  ==========================================================================
``lock``                held while a process starts or stops the server: one at a time
``alive``               held by the server itself, as an inherited descriptor, for as long as it lives
``users``               held, shared, by every process that uses the server; the last one stops it
``server.pid``          process ID of the server, written by the server
``address.json``        its address, written before the start
``server.conf, .log``   its configuration and its log
``appendonlydir/``      the data
======================  ==========================================================================

Locks decide whether a process is alive, not process IDs: the kernel releases them however a process dies, a zombie
holds none, and a reused process ID does not matter.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from offsider.core.errors import ConfigurationError

# sun_path has 104 bytes on macOS and 108 on Linux, including the final zero byte.
MAX_SOCKET_PATH_BYTES = 103
LOOPBACK = "127.0.0.1"


class Answer(Enum):
    """The reply of a server to PING."""

    READY = "PONG, or an error that asks for a password"
    LOADING = "an error: it is loading its data"
    NONE = "no reply"


@dataclass(frozen=True)
class Address:
    """A Unix socket, and optionally a port on loopback."""

    socket_path: str = ""
    port: int = 0

    @property
    def url(self) -> str:
        if self.port:
            return f"redis://{LOOPBACK}:{self.port}/0"
        return f"unix://{quote(self.socket_path)}?db=0"

    def ask(self, timeout_seconds: float = 1.0) -> Answer:
        """Send PING and return the reply, without a client library.

        Always uses the socket: if the port was already in use, another program would reply there.

        Raises:
            ConfigurationError: the server belongs to another user.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(timeout_seconds)
                connection.connect(self.socket_path)
                if (owner := _peer_uid(connection)) != os.geteuid():
                    raise ConfigurationError(
                        f"the server at {self.socket_path} belongs to another user (uid {owner}): use another folder"
                    )
                connection.sendall(b"PING\r\n")
                reply = connection.recv(64)
        except OSError:
            return Answer.NONE
        if not reply:
            return Answer.NONE
        return Answer.LOADING if reply.startswith(b"-LOADING") else Answer.READY

    def remove(self, folder: Path) -> None:
        """Remove a socket outside of the server's folder, and the private folder around it."""
        outside = Path(self.socket_path).parent
        if self.socket_path and outside != folder:
            with suppress(OSError):
                Path(self.socket_path).unlink(missing_ok=True)
                outside.rmdir()


def _peer_uid(connection: socket.socket) -> int:
    if hasattr(socket, "SO_PEERCRED"):
        return int(struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
    # macOS: LOCAL_PEERCRED of SOL_LOCAL, a struct xucred with version, user and groups
    return int(struct.unpack("2I", connection.getsockopt(0, 1, 76)[:8])[1])


def choose(folder: Path, port: int | None) -> Address:
    """Return the address: a socket in a private folder, and a port if one is requested (0: any free port)."""
    return Address(_socket_path(folder), free_port() if port == 0 else port or 0)


def _socket_path(folder: Path) -> str:
    path = str(folder / "server.sock")
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    # Not a name that another user can know before: that user could serve it first.
    return str(Path(tempfile.mkdtemp(prefix="offsider-")) / "server.sock")


def free_port() -> int:
    """Return a free port. Another program may take it first, so the caller has to retry the start."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Folder:
    """Files and locks of a server's folder, which is created if it does not exist, and closed to other users.

    Raises:
        ConfigurationError: the folder cannot be created or closed, or contains files that are not the server's.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._open_to_others() and (not os.listdir(self.path) or (self.path / "lock").exists()):  # noqa: PTH208  # any
                self.path.chmod(0o700)
        except OSError as error:
            raise ConfigurationError(f"cannot create the folder {self.path} of the embedded server: {error}") from error
        if self._open_to_others():
            raise ConfigurationError(
                f"the folder {self.path} is open to other users, who could read the jobs: use an empty folder for the "
                f"embedded server, or run chmod 700 {self.path}"
            )
        self.conf = self.path / "server.conf"
        self.log = self.path / "server.log"
        self.pid_file = self.path / "server.pid"
        self._address = self.path / "address.json"

    def _open_to_others(self) -> bool:
        return bool(self.path.stat().st_mode & 0o077)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Serialize starts and stops of all processes."""
        descriptor = self._open("lock")
        try:
            _flock(descriptor, "exclusive", wait=True)
            yield
        finally:
            os.close(descriptor)

    def claim_life(self) -> int | None:
        """Return the file descriptor for a new server to inherit, or None while a server is alive."""
        return self._claim("alive")

    def has_server(self) -> bool:
        return self._is_held("alive")

    def join_users(self) -> int:
        """Register as a user until the returned file descriptor is closed, for any reason."""
        descriptor = self._open("users")
        _flock(descriptor, "shared", wait=True)
        return descriptor

    def has_users(self) -> bool:
        return self._is_held("users")

    def server_pid(self) -> int | None:
        """Return the process ID of the live server; valid only while `has_server`."""
        try:
            return int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None

    def read_address(self) -> Address:
        try:
            return Address(**json.loads(self._address.read_text()))
        except (OSError, ValueError, TypeError):
            return Address()

    def write_address(self, address: Address) -> None:
        self._address.write_text(json.dumps({"socket_path": address.socket_path, "port": address.port}))

    def log_tail(self, lines: int = 5) -> str:
        """Return the last lines of the log, for the error of a failed start."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def _is_held(self, name: str) -> bool:
        """Whether another descriptor holds a lock of this file."""
        descriptor = self._claim(name)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def _claim(self, name: str) -> int | None:
        """Return a descriptor that holds the exclusive lock of this file; None if another one holds a lock."""
        descriptor = self._open(name)
        try:
            _flock(descriptor, "exclusive", wait=False)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def _open(self, name: str) -> int:
        return os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)


def _flock(descriptor: int, kind: Literal["shared", "exclusive"], *, wait: bool) -> None:
    import fcntl  # POSIX only, like every server binary; importing offsider must work without it

    how = fcntl.LOCK_SH if kind == "shared" else fcntl.LOCK_EX
    fcntl.flock(descriptor, how if wait else how | fcntl.LOCK_NB)
