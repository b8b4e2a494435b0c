"""Which names of jobs each process knows: what it can run of the jobs that are stored, as seen from outside."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import cast

from offsider.storage.processes import EXPIRY_SECONDS
from offsider.storage.redis import Redis


def publish(redis: Redis, identity: str, names: Iterable[str]) -> None:
    """Tell which names a process knows, for as long as a heartbeat shows it: to be repeated at each."""
    told = json.dumps(sorted(names), ensure_ascii=False, separators=(",", ":"))
    redis.call("SET", redis.keys.registered(identity), told, "EX", EXPIRY_SECONDS)


def withdraw(redis: Redis, identity: str) -> None:
    """Take it back at a clean exit."""
    redis.call("UNLINK", redis.keys.registered(identity))


def known_to(redis: Redis, identities: Sequence[str]) -> dict[str, frozenset[str]]:
    """The names that each process knows. One that does not tell, as Ruby's never do, is left out."""
    if not identities:
        return {}
    replies = redis.call("MGET", *map(redis.keys.registered, identities))
    told = {identity: _names(raw) for identity, raw in zip(identities, replies, strict=True)}
    return {identity: names for identity, names in told.items() if names is not None}


def _names(raw: bytes | None) -> frozenset[str] | None:
    try:
        names: object = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    return frozenset(map(str, cast("list[object]", names))) if isinstance(names, list) else None
