"""Publishes the routing rules of a client. Clients apply the rules, so this is the only way to compare them."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from offsider.config.config import Config
from offsider.config.default import is_of_worker
from offsider.storage.clients import SeenClient, note_command
from offsider.storage.keys import Keys
from offsider.storage.scripts import Command

PAUSE_SECONDS = 60.0
_MOST_LETTERS = 60


class ClientRegistry:
    """Adds commands to the pipeline of the first push, and then at most once a minute."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._due: dict[str, float] = {}

    def commands(self, keys: Keys, server: str = "") -> Sequence[Command]:
        """Return the commands to add to a push to this server; usually none."""
        now = time.monotonic()
        if now < self._due.get(server, 0.0):
            return ()
        self._due[server] = now + PAUSE_SECONDS
        host = os.environ.get("DYNO") or socket.gethostname()
        shown = SeenClient(host, self._role(), self._config.routing.rules.digest)
        return (note_command(keys, shown),)

    def _role(self) -> str:
        if is_of_worker(self._config):
            return "worker"
        return Path(sys.argv[0] if sys.argv else "").name[:_MOST_LETTERS] or "python"
