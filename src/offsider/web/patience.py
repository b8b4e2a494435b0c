"""Connections that send no whole request within some seconds are closed: there is room for so many and no more.

Whoever opens five hundred and stays silent would keep everybody else from the pages.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: For a request of at most 64 KB.
PATIENCE_SECONDS = 10.0


class ImpatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it. A request has to be there in time, from its first byte or from the connection on."""

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
        # Between two requests nothing comes, and uvicorn's own time for connections that are kept holds.
        if self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
