"""The programs that push jobs, and by which routing rules: each tells now and then, or is forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from offsider.storage.clocks import look
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

#: Who was silent for so long is no longer shown.
LIFE_SECONDS = 300
#: Of a name: host, role, rules.
_PARTS = 3
NOTE_CLIENT = Script("note_client")


@dataclass(frozen=True, slots=True, order=True)
class SeenClient:
    """A program that has pushed jobs within the last minutes.

    Attributes:
        host: where it runs.
        role: ``"worker"``, or the program's name.
        rules: the digest of its routing rules; ``"none"`` for no rules.
    """

    host: str
    role: str
    rules: str


def note_command(keys: Keys, client: SeenClient) -> Command:
    """The command by which a client shows itself; for the pipeline of a push, once a minute, so in full."""
    name = ":".join((client.host, client.role.replace(":", "_"), client.rules))
    return NOTE_CLIENT.by_text([keys.clients], [name, LIFE_SECONDS])


def seen(redis: Redis) -> list[SeenClient]:
    """Those that have shown themselves within the last minutes, sorted."""
    now, _ = look(redis)
    names: list[bytes] = redis.call("ZRANGEBYSCORE", redis.keys.clients, now - LIFE_SECONDS, "+inf")
    shown = (name.decode("utf-8", "replace").rsplit(":", 2) for name in names)
    return sorted(SeenClient(*parts) for parts in shown if len(parts) == _PARTS)
