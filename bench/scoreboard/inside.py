"""How many jobs of a kind run at one time, counted by the jobs themselves in the ledger, where nobody is killed.

1. A run notes itself when it begins, and reads in the same transaction who else is inside. At its end it takes itself
   out.
2. A run whose process was killed cannot do that. The row tells whom it killed, and they count no more: before their
   successors can have been let in, because it takes seconds until somebody is declared dead.
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
    """The side of the jobs.

    Args:
        path: of the ledger server's socket.
    """

    def __init__(self, path: str) -> None:
        self._redis: Any = redis.Redis(unix_socket_path=path, decode_responses=True)

    @contextmanager
    def counted(self, kind: str, group: str = "") -> Generator[None]:
        """Around what a job does.

        Args:
            kind: those that are counted together.
            group: under which name the most of this kind is told; default: the kind.
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
    """The side of the row.

    Args:
        path: of the ledger server's socket.
    """

    def __init__(self, path: str) -> None:
        self._redis: Any = redis.Redis(unix_socket_path=path, decode_responses=True)

    def killed(self, pid: int) -> None:
        """Tell that a process is dead."""
        self._redis.sadd(KILLED, pid)

    def most(self, group: str) -> int:
        """The most runs of one kind at one time that any of them has seen; 0 when there was none."""
        return max(map(int, self._redis.hkeys(f"most:{group}")), default=0)

    def close(self) -> None:
        self._redis.close()
