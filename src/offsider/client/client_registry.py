"""The registry of programs that push jobs, with the digest of the routing rules of each.

Clients apply the rules, so programs can only be compared by what they publish themselves. An entry expires.
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

#: Minimum time between two renewals of an entry.
RENEWAL_SECONDS = 60.0
#: Expiry of an entry, from its last renewal.
LIFE_SECONDS = 300
NOTE_CLIENT = Script("note_client")
_MAX_CHARACTERS = 60


class SeenClient(NamedTuple):
    """A program that pushed jobs within the last minutes.

    Attributes:
        host: host name.
        role: ``"worker"``, or the name of the program.
        rules: digest of its routing rules; ``"none"`` without rules.
    """

    host: str
    role: str
    rules: str


def note_command(keys: Keys, client: SeenClient) -> Command:
    """Return the command that renews an entry. A pipeline cannot retry a script, so the command contains its text."""
    name = ":".join((client.host, client.role.replace(":", "_"), client.rules))
    return NOTE_CLIENT.by_text([keys.clients], [name, LIFE_SECONDS])


def seen(redis: Redis) -> list[SeenClient]:
    """Return the programs that pushed jobs within the last minutes, sorted."""
    now, _ = look(redis)
    names: list[bytes] = redis.call("ZRANGEBYSCORE", redis.keys.clients, now - LIFE_SECONDS, "+inf")
    entries = (name.decode("utf-8", "replace").rsplit(":", 2) for name in names)
    return sorted(SeenClient(*parts) for parts in entries if len(parts) == len(SeenClient._fields))


class ClientRegistry:
    """Adds the renewal of this program's entry to the pipeline of a push, at most once a minute."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._due: dict[str, float] = {}

    def commands(self, keys: Keys, server: str = "") -> Sequence[Command]:
        """Return the commands to add to a push to this server; usually none."""
        now = time.monotonic()
        if now < self._due.get(server, 0.0):
            return ()
        self._due[server] = now + RENEWAL_SECONDS
        host = os.environ.get("DYNO") or socket.gethostname()
        return (note_command(keys, SeenClient(host, self._role(), self._config.routing.rules.digest)),)

    def _role(self) -> str:
        if is_of_worker(self._config):
            return "worker"
        return Path(sys.argv[0] if sys.argv else "").name[:_MAX_CHARACTERS] or "python"
