"""The programs that push jobs, with the digest of their routing rules. Each renews its entry, which expires."""

from __future__ import annotations

from typing import NamedTuple

from offsider.storage.clocks import look
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

#: Expiry of an entry, from its last renewal.
LIFE_SECONDS = 300
#: Parts of a name: host, role, rules.
_PARTS = 3
NOTE_CLIENT = Script("note_client")


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
