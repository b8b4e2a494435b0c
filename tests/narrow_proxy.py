"""A TCP proxy that lacks commands, as proxies before managed servers do: it refuses them, and forwards all others.

with NarrowProxy(server.url, "HELLO", "CLIENT") as proxy:    # so RESP2 only
    pool = Redis(RedisSettings(url=proxy.url), size=1)
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import hiredis

from tests.faults import FaultProxy


class NarrowProxy(FaultProxy):
    """Replaces a command that it lacks by one that no server has, so that replies stay in order.

    Args:
        url: of the server.
        missing: names of commands, in capitals.
    """

    def __init__(self, url: str, *missing: str) -> None:
        super().__init__(url)
        self._missing = {name.encode() for name in missing}

    def _requests(self, client: socket.socket, server: socket.socket, *_: Any) -> None:
        reader = hiredis.Reader()
        with suppress(OSError):
            while data := client.recv(1 << 16):
                reader.feed(data)
                while (command := reader.gets()) is not False:
                    if command[:2] == [b"CLUSTER", b"SLOTS"]:
                        self._show_slots(client)
                        continue
                    known = command[0].upper() not in self._missing
                    server.sendall(hiredis.pack_command(tuple(command) if known else (b"MISSING",)))
        self._end(client, server)
