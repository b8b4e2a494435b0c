"""The ledger of a row: counts the effects of jobs in a second server without faults.

1. The row starts a server for the ledger and passes its socket to the workers (``SCOREBOARD_LEDGER``).
2. A job counts its effect in its last step: one ``HINCRBY`` by jid, without waiting for the reply. The count is safe
   even if the sender is killed immediately afterwards, because the bytes are in the socket.
3. A concurrent run adds itself at its start, and reads the current runs in the same transaction. A killed process
   cannot remove its runs, so the row reports each process that it kills. Successors start only after the process is
   declared dead, which takes seconds.
4. At the end the row reads the counts.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import redis

from bench.stall import Stall

VARIABLE = "SCOREBOARD_LEDGER"
RAN = "ran"
RECOVERED = "recovered"
KILLED = "killed"


class Ledger:
    """Access for jobs and for the row. Each process opens the connection for counts at its first count.

    Args:
        path: the ledger server's socket.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._redis: Any = redis.Redis(unix_socket_path=path, decode_responses=True)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0

    # --- writes

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

    @contextmanager
    def running(self, kind: str, group: str = "") -> Generator[None]:
        """Count the concurrent runs of a kind during the block; ``group`` names their maximum, default: the kind."""
        member = f"{os.getpid()} {threading.get_ident()}"
        with self._redis.pipeline(transaction=True) as together:
            together.sadd(f"inside:{kind}", member)
            together.smembers(f"inside:{kind}")
            together.smembers(KILLED)
            _, members, killed = together.execute()
        alive = sum(other.partition(" ")[0] not in killed for other in members)
        self._redis.hincrby(f"most:{group or kind}", alive, 1)
        try:
            yield
        finally:
            self._redis.srem(f"inside:{kind}", member)

    def remove_killed(self, pid: int) -> None:
        """Remove the concurrent runs of a killed process."""
        self._redis.sadd(KILLED, pid)

    def clear(self) -> None:
        self._redis.flushall()

    # --- reads

    def counts(self, table: str = RAN) -> Counter[str]:
        """Return the count of each member of a table."""
        return Counter({member: int(count) for member, count in self._redis.hgetall(table).items()})

    def get(self, table: str, member: str) -> int:
        return int(self._redis.hget(table, member) or 0)

    def size(self, table: str = RAN) -> int:
        """Return the number of members of a table."""
        return int(self._redis.hlen(table))

    def notes(self, table: str) -> list[list[str]]:
        """Return the words of each note in a list, the last one the time."""
        return [note.split(":") for note in self._redis.lrange(table, 0, -1)]

    def max_concurrent(self, group: str) -> int:
        """Return the maximum number of concurrent runs of a group."""
        return max(map(int, self._redis.hkeys(f"most:{group}")), default=0)

    def server_time(self) -> float:
        """Return the epoch seconds of the ledger's server, whose clock is right."""
        seconds, microseconds = self._redis.time()
        return float(seconds) + float(microseconds) / 1e6

    def until(self, size: int, *, quiet_seconds: float, table: str = RAN) -> bool:
        """Wait until a table has this number of members; False after ``quiet_seconds`` without a new one."""
        stall = Stall(quiet_seconds)
        while (now := self.size(table)) < size and not stall.lasts(now):
            time.sleep(0.02)
        return now >= size

    def close(self) -> None:
        self._redis.close()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _send(self, lines: str) -> None:
        with self._lock:
            if self._socket is None or self._pid != os.getpid():
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.connect(self.path)
                self._socket.sendall(b"CLIENT REPLY OFF\r\n")
                self._pid = os.getpid()
            self._socket.sendall(lines.encode())
