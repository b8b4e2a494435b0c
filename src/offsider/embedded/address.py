"""The address of an embedded server, and its health check."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import quote

# sun_path has 104 bytes on macOS and 108 on Linux, including the final zero byte.
LONGEST_SOCKET_PATH = 103
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
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(timeout_seconds)
                connection.connect(self.socket_path)
                connection.sendall(b"PING\r\n")
                reply = connection.recv(64)
        except OSError:
            return Answer.NONE
        if not reply:
            return Answer.NONE
        return Answer.LOADING if reply.startswith(b"-LOADING") else Answer.READY


def choose(folder: Path, port: int | None) -> Address:
    """Return the address: the socket in the folder, and a port if one is requested (0: any free port)."""
    return Address(_socket_path(folder), free_port() if port == 0 else port or 0)


def _socket_path(folder: Path) -> str:
    path = str(folder / "server.sock")
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return str(Path(tempfile.gettempdir()) / f"offsider-{name}.sock")


def free_port() -> int:
    """Return a free port. Another program may take it first, so the caller has to retry the start."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
