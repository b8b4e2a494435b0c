"""Servers that count their commands, and can be killed, restarted at the same port, and frozen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis

from offsider.embedded import EmbeddedServer


class Server:
    """One server; it keeps its port on loopback over restarts.

    Args:
        folder: its data.
        persist: keep an append-only file, synced once a second.
        config: additional lines of its configuration.
        binary: the program; None searches for one.
    """

    def __init__(
        self, folder: Path, *, persist: bool = True, config: Mapping[str, str] | None = None, binary: Path | None = None
    ) -> None:
        self._folder = folder
        self._persist = persist
        self._config = config
        self._binary = binary
        self._life = self._start(0)
        self.url = self._life.url
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])
        #: a plain redis-py client, for test data and checks
        self.raw: Any = redis.Redis(port=self.port, socket_timeout=60)

    @property
    def socket_path(self) -> str:
        return str(self._folder / "server.sock")

    @property
    def pid(self) -> int:
        return self._life.pid or 0

    def kill(self) -> None:
        """Send ``kill -9``: unwritten data is lost."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        while self._life.pid == pid:
            time.sleep(0.002)
        self._life.stop()

    def start_again(self) -> None:
        """Start it again in the same folder, at the same port."""
        self._life = self._start(self.port)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def counters(self) -> dict[str, float]:
        """Return the commands and socket reads so far, and the memory in bytes."""
        info = self.raw.info()
        names = {"commands": "total_commands_processed", "reads": "total_reads_processed", "memory": "used_memory"}
        return {short: float(info[name]) for short, name in names.items()}

    def close(self) -> None:
        self.raw.close()
        with suppress(ProcessLookupError):
            self.thaw()
        self._life.stop()

    def _start(self, port: int) -> EmbeddedServer:
        server = EmbeddedServer(
            self._folder, port=port, persist=self._persist, config=self._config, binary=self._binary
        )
        return server.start()
