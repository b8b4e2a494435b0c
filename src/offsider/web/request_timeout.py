"""Closes connections that do not complete a request in time.

The number of connections is limited, so that idle ones would block all others.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: For a request of at most 64 KB.
TIMEOUT_SECONDS = 10.0


class TimeoutProtocol(H11Protocol):
    """uvicorn's HTTP protocol with a deadline for each request, counted from the connection or the first byte."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._await_the_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_the_rest()

    def _await_the_rest(self) -> None:
        # An idle kept-alive connection has no deadline here; uvicorn's keep-alive timeout applies.
        if self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(TIMEOUT_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
