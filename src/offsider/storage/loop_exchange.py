"""One request of an event loop: the loop sends it, and reads its replies when they arrive."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any


def can_exchange(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop can wait for a socket that it has not opened; that of Windows cannot."""
    return type(loop).add_reader is not asyncio.AbstractEventLoop.add_reader


class LoopExchange:
    """A request and its replies on a plain socket, which does not block afterwards.

    A loop that was blocked past the time limit still gets the replies that have arrived meanwhile.

    Args:
        sock: the socket.
        receive: receives once, and returns the replies that are complete.
        number: the number of replies.
    """

    def __init__(self, sock: socket.socket, receive: Callable[[], Sequence[Any]], number: int) -> None:
        if sock.gettimeout() != 0:
            sock.settimeout(0)
        self._sock = sock
        self._receive_once = receive
        self._number = number
        self._loop = asyncio.get_running_loop()
        self._replies: list[Any] = []
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._unsent = memoryview(b"")

    async def run(self, packed: bytes, seconds: float, too_late: Exception) -> list[Any]:
        """Send packed commands and return their replies.

        Raises:
            OSError, RedisError: the connection failed.
            Exception: ``too_late``, after these seconds.
        """
        file, loop = self._sock.fileno(), self._loop
        loop.add_reader(file, self._receive)
        timer = loop.call_later(seconds, self._fail, too_late)
        try:
            self._unsent = memoryview(packed)
            self._send()
            if self._unsent:
                loop.add_writer(file, self._send_rest)
            await self._done
        finally:
            timer.cancel()
            with suppress(RuntimeError):  # the loop is closed
                loop.remove_reader(file)
                if self._unsent:
                    loop.remove_writer(file)
        return self._replies

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)

    def _send_rest(self) -> None:
        self._send()
        if not self._unsent:
            self._loop.remove_writer(self._sock.fileno())

    def _receive(self) -> None:
        try:
            self._replies += self._receive_once()
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - raised where the request waits
            self._fail(error)
            return
        if len(self._replies) >= self._number and not self._done.done():
            self._done.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)
