"""The ledger of a row: counts the effects of jobs in a second server without faults.

1. The row starts a server for the ledger and passes its socket to the workers (``SCOREBOARD_LEDGER``).
2. A job counts its effect in its last step: one ``HINCRBY`` by jid, without waiting for the reply. The count is safe
   even if the sender is killed immediately afterwards, because the bytes are in the socket.
3. At the end the row reads the whole hash.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from typing import Any

import redis

VARIABLE = "SCOREBOARD_LEDGER"
RAN = "ran"
RECOVERED = "recovered"


class Effects:
    """Access for jobs: one connection per process, opened at its first effect.

    Args:
        path: the ledger server's socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0

    def count(self, table: str, *members: str) -> None:
        """Increment the count of each member in a table."""
        self._send("".join(f"HINCRBY {table} {member} 1\r\n" for member in members))

    def note(self, table: str, *words: object) -> None:
        """Append words and the time in epoch milliseconds to a list."""
        self._send(f"RPUSH {table} {':'.join(map(str, (*words, int(time.time() * 1000))))}\r\n")

    def ran(self, jid: str, interrupted_count: int = 0) -> None:
        """Count the effect of a job."""
        self.count(RAN, jid)
        if interrupted_count:
            self.count(RECOVERED, jid)

    def read(self, table: str, member: str) -> int:
        """Return one count, over a separate connection, because the other one receives no replies."""
        with self._asking() as reader:
            return int(reader.hget(table, member) or 0)

    def server_time(self) -> float:
        """Return the epoch seconds of the ledger's server, whose clock is right."""
        with self._asking() as reader:
            seconds, microseconds = reader.time()
            return float(seconds) + float(microseconds) / 1e6

    def close(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _send(self, lines: str) -> None:
        with self._lock:
            self._connected().sendall(lines.encode())

    def _asking(self) -> Any:
        return redis.Redis(unix_socket_path=self._path)

    def _connected(self) -> socket.socket:
        if self._socket is None or self._pid != os.getpid():
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(self._path)
            self._socket.sendall(b"CLIENT REPLY OFF\r\n")
            self._pid = os.getpid()
        return self._socket


class Ledger:
    """Access for the row.

    Args:
        path: the ledger server's socket.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._redis: Any = redis.Redis(unix_socket_path=path, decode_responses=True)

    def counts(self, table: str = RAN) -> Counter[str]:
        """Return the count of each jid in a table."""
        return Counter({jid: int(count) for jid, count in self._redis.hgetall(table).items()})

    def notes(self, table: str) -> list[list[str]]:
        """Return the words of each note in a list, the last one the time."""
        return [note.split(":") for note in self._redis.lrange(table, 0, -1)]

    def size(self, table: str = RAN) -> int:
        """Return the number of jids in a table."""
        return int(self._redis.hlen(table))

    def get(self, table: str, member: str) -> int:
        return int(self._redis.hget(table, member) or 0)

    def set(self, table: str, member: str, value: int) -> None:
        self._redis.hset(table, member, value)

    def clear(self) -> None:
        self._redis.flushall()

    def until(self, size: int, *, quiet_seconds: float, table: str = RAN) -> bool:
        """Wait until this number of jids is recorded; False after ``quiet_seconds`` without a new one."""
        have, since = -1, time.monotonic()
        while (now := self.size(table)) < size:
            if now > have:
                have, since = now, time.monotonic()
            elif time.monotonic() - since > quiet_seconds:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        self._redis.close()
