"""The programs that push jobs, and by which routing rules: each tells now and then, or is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsider.storage.clocks import look
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: Who was silent for so long is no longer shown.
LIFE_SECONDS = 300
#: Writers forget later than that: their clocks may differ.
#: Of a name: host, role, rules.
_PARTS = 3
_KEPT_SECONDS = 3600


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


def note_commands(keys: Keys, client: SeenClient, now: float) -> Sequence[Command]:
    """The commands by which a client shows itself; for the pipeline of a push. ``now`` is epoch seconds."""
    name = ":".join((client.host, client.role.replace(":", "_"), client.rules))
    return (
        ("ZADD", keys.clients, now, name),
        ("ZREMRANGEBYSCORE", keys.clients, "-inf", now - _KEPT_SECONDS),
        ("EXPIRE", keys.clients, LIFE_SECONDS),
    )


def seen(redis: Redis) -> list[SeenClient]:
    """Those that have shown themselves within the last minutes, sorted."""
    now, _ = look(redis)
    names: list[bytes] = redis.call("ZRANGEBYSCORE", redis.keys.clients, now - LIFE_SECONDS, "+inf")
    shown = (name.decode("utf-8", "replace").rsplit(":", 2) for name in names)
    return sorted(SeenClient(*parts) for parts in shown if len(parts) == _PARTS)
