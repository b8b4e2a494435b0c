"""How a client shows which routing rules it pushes by: rules act in clients, and nobody else could compare them."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from offsider.storage.clients import SeenClient, note_command
from offsider.storage.keys import Keys
from offsider.storage.scripts import Command
from offsider.wiring.config import Config
from offsider.wiring.default import is_of_worker

PAUSE_SECONDS = 60.0
_MOST_LETTERS = 60


class Presence:
    """Gives the pipeline of a push some commands more at the first push, and then once a minute at most."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._due: dict[str, float] = {}

    def commands(self, keys: Keys, server: str = "") -> Sequence[Command]:
        """What to send along with the push that is about to be sent to this server; mostly nothing."""
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
