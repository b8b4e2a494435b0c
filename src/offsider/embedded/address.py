"""Where an embedded server listens, and the one question it is asked: are you there?"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import quote

# sun_path holds 104 bytes on macOS and 108 on Linux, the closing zero included.
LONGEST_SOCKET_PATH = 103
LOOPBACK = "127.0.0.1"


class Answer(Enum):
    """What a server says to PING."""

    READY = "PONG, or that a password is wanted"
    LOADING = "that it reads its data back"
    NONE = "nothing"


@dataclass(frozen=True)
class Address:
    """A unix socket, which is always there, and perhaps a port on loopback."""

    socket_path: str = ""
    port: int = 0

    @property
    def url(self) -> str:
        if self.port:
            return f"redis://{LOOPBACK}:{self.port}/0"
        return f"unix://{quote(self.socket_path)}?db=0"

    def ask(self, timeout_seconds: float = 1.0) -> Answer:
        """Send PING and tell what came back; no client library is needed for that.

        The socket is asked even where there is a port: at a port that was taken, somebody else would answer.
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
    """The socket in the folder, and a port when one is asked for (0: any free one)."""
    return Address(_socket_path(folder), free_port() if port == 0 else port or 0)


def _socket_path(folder: Path) -> str:
    path = str(folder / "server.sock")
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return str(Path(tempfile.gettempdir()) / f"offsider-{name}.sock")


def free_port() -> int:
    """A port that nobody listens on right now. Someone may be quicker, so a start with it is tried again."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
