"""The way from workers to their keeper: one pair of datagram sockets, with any number of writers.

1. It is made before the keeper is forked. The keeper reads, the worker, or every child of a supervisor, writes.
2. A supervisor holds both ends: a keeper that it starts anew reads on, and no worker notices.
3. Nobody waits on it: what finds the keeper slow is dropped, the next report says it again.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

# A report names every queue; macOS would otherwise take 2 KB.
DATAGRAM_BYTES = 208 * 1024
_NO_ROOM = (errno.EMSGSIZE, errno.ENOBUFS)


class KeeperGone(Exception):
    """Nobody reads any more."""


class Channel:
    """Both ends. Each process closes the end that is not its own."""

    def __init__(self) -> None:
        self._inbox, self._outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (self._inbox, self._outbox):
            end.setblocking(False)
            with suppress(OSError):  # more than the system allows: then what it allows
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, DATAGRAM_BYTES)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, DATAGRAM_BYTES)

    def fileno(self) -> int:
        """What a selector watches for `receive`."""
        return self._inbox.fileno()

    def receive(self) -> bytes | None:
        """The next datagram; None when there is none now."""
        try:
            return self._inbox.recv(DATAGRAM_BYTES) or None
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, datagram: bytes) -> bool:
        """Hand a datagram over; False when there is no room for it now, or it is larger than the system allows.

        Raises:
            KeeperGone: the other end is closed.
        """
        try:
            self._outbox.send(datagram)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NO_ROOM:
                return False
            raise KeeperGone(error.strerror or str(error)) from error
        return True

    def only_receive(self) -> None:
        self._outbox.close()

    def only_send(self) -> None:
        self._inbox.close()

    def close(self) -> None:
        self._inbox.close()
        self._outbox.close()
