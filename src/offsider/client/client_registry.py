"""The programs that push jobs, with the digest of their routing rules. Each renews its entry, which expires.

Clients apply the rules, so this is the only way to compare them.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from offsider.config.config import Config
from offsider.config.default import is_of_worker
from offsider.storage.clocks import look
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

PAUSE_SECONDS = 60.0
#: Expiry of an entry, from its last renewal.
LIFE_SECONDS = 300
#: Parts of a name: host, role, rules.
_PARTS = 3
NOTE_CLIENT = Script("note_client")
_MAX_LETTERS = 60


class SeenClient(NamedTuple):
    """A program that pushed jobs within the last minutes.

    Attributes:
        host: host name.
        role: ``"worker"``, or the program's name.
        rules: digest of its routing rules; ``"none"`` for no rules.
    """

    host: str
    role: str
    rules: str


def note_command(keys: Keys, client: SeenClient) -> Command:
    """Return the command that renews an entry. It goes in the pipeline of a push, so it sends the script's text."""
    name = ":".join((client.host, client.role.replace(":", "_"), client.rules))
    return NOTE_CLIENT.by_text([keys.clients], [name, LIFE_SECONDS])


def seen(redis: Redis) -> list[SeenClient]:
    """Return the clients seen within the last minutes, sorted."""
    now, _ = look(redis)
    names: list[bytes] = redis.call("ZRANGEBYSCORE", redis.keys.clients, now - LIFE_SECONDS, "+inf")
    shown = (name.decode("utf-8", "replace").rsplit(":", 2) for name in names)
    return sorted(SeenClient(*parts) for parts in shown if len(parts) == _PARTS)


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
        return Path(sys.argv[0] if sys.argv else "").name[:_MAX_LETTERS] or "python"
