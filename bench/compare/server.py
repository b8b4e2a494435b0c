"""The Redis server of one run: on loopback, the same program for all contestants, without persistence."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from offsider.embedded import EmbeddedServer


class Server:
    """A server that runs during the block, and its counters."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        found = shutil.which("redis-server")
        if found is None:
            sys.exit("bench compare needs redis-server: apt-get install redis-server")
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True))
        server = EmbeddedServer(Path(folder), binary=Path(found), port=0, persist=False)
        self._stack.enter_context(server)
        self.url = server.url
        self.pid = server.pid or 0
        untyped: Any = redis.Redis
        self._client: Any = self._stack.enter_context(untyped.from_url(server.url))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def counters(self) -> dict[str, float]:
        """Return the commands and socket reads so far, and the memory in bytes."""
        told = self._client.info()
        return {
            "commands": float(told["total_commands_processed"]),
            "reads": float(told["total_reads_processed"]),
            "memory": float(told["used_memory"]),
        }

    @property
    def version(self) -> str:
        return str(self._client.info("server")["redis_version"])
