"""Counts the concurrent runs of each kind of job. The jobs themselves count in the ledger, a server without faults.

1. A run adds itself at its start, and reads the current runs in the same transaction. It removes itself at its end.
2. A run whose process was killed cannot remove itself. So the row reports each process that it kills, and its runs no
   longer count. This is in time: successors can start only after the process is declared dead, which takes seconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import redis

KILLED = "killed"


class Inside:
    """Access for jobs.

    Args:
        path: the ledger server's socket.
    """

    def __init__(self, path: str) -> None:
        self._redis: Any = redis.Redis(unix_socket_path=path, decode_responses=True)

    @contextmanager
    def counted(self, kind: str, group: str = "") -> Generator[None]:
        """Count the run during the block.

        Args:
            kind: runs of the same kind are counted together.
            group: name for the maximum of this kind; default: the kind.
        """
        pid = os.getpid()
        member = f"{pid} {threading.get_ident()}"
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


class Outside:
    """Access for the row.

    Args:
        path: the ledger server's socket.
    """

    def __init__(self, path: str) -> None:
        self._redis: Any = redis.Redis(unix_socket_path=path, decode_responses=True)

    def killed(self, pid: int) -> None:
        """Remove the runs of a killed process."""
        self._redis.sadd(KILLED, pid)

    def most(self, group: str) -> int:
        """Return the maximum number of concurrent runs of one kind; 0 if there was none."""
        return max(map(int, self._redis.hkeys(f"most:{group}")), default=0)

    def close(self) -> None:
        self._redis.close()
