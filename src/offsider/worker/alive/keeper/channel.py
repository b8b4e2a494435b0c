"""The channel from workers to their keeper: one pair of datagram sockets with any number of writers.

1. It is created before the keeper is forked. The keeper reads; the worker, or every child of a supervisor, writes.
2. A supervisor keeps both ends open: a restarted keeper continues to read, and workers notice nothing.
3. Writers never block: if the keeper is slow, a datagram is dropped. Each report is complete, so the next one suffices.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

# A report contains every queue name; the default limit of macOS is 2 KB.
DATAGRAM_BYTES = 208 * 1024
_NO_ROOM = (errno.EMSGSIZE, errno.ENOBUFS)


class KeeperGone(Exception):
    """The keeper has closed its end."""


class Channel:
    """Both ends of the channel. Each process closes the end that it does not use."""

    def __init__(self) -> None:
        self._inbox, self._outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (self._inbox, self._outbox):
            end.setblocking(False)
            with suppress(OSError):  # above the system's maximum: keep the default size
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, DATAGRAM_BYTES)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, DATAGRAM_BYTES)

    def fileno(self) -> int:
        """Descriptor for a selector; readable when `receive` has a datagram."""
        return self._inbox.fileno()

    def receive(self) -> bytes | None:
        """Return the next datagram; None if there is none now."""
        try:
            return self._inbox.recv(DATAGRAM_BYTES) or None
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, datagram: bytes) -> bool:
        """Send a datagram; False if the buffer is full or the datagram is larger than the system allows.

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
