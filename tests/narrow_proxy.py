"""A TCP proxy that lacks commands, as proxies before managed servers do: it refuses them, and forwards all others.

with NarrowProxy(server.url, "HELLO", "CLIENT") as proxy:    # so RESP2 only
    pool = Redis(RedisSettings(url=proxy.url), size=1)
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

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
        with suppress(OSError, ValueError), client.makefile("rb") as requests:
            while header := requests.readline():  # *2\r\n, then $3\r\n GET\r\n $1\r\n k\r\n
                parts = list[bytes]()
                for _part in range(int(header[1:])):
                    size = requests.readline()
                    parts += [size, requests.read(int(size[1:]) + 2)]
                if parts[1::2][:2] == [b"CLUSTER\r\n", b"SLOTS\r\n"]:
                    self._show_slots(client)
                    continue
                known = parts[1].strip().upper() not in self._missing
                server.sendall(b"".join((header, *parts)) if known else b"*1\r\n$7\r\nMISSING\r\n")
        self._end(client, server)
