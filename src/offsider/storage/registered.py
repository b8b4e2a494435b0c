"""Which jobs each process can run, as seen from outside: the names that it knows, and the parameters of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from offsider.storage.processes import EXPIRY_SECONDS
from offsider.storage.redis import Redis


def publish(redis: Redis, identity: str, signatures: Mapping[str, str]) -> None:
    """Tell which jobs a process can run, for as long as a heartbeat shows it: to be repeated at each.

    Args:
        signatures: name -> digest of the job's signature.
    """
    told = json.dumps(signatures, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    redis.call("SET", redis.keys.registered(identity), told, "EX", EXPIRY_SECONDS)


def withdraw(redis: Redis, identity: str) -> None:
    """Take it back at a clean exit."""
    redis.call("UNLINK", redis.keys.registered(identity))


def known_to(redis: Redis, identities: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Name -> digest of each job that each process can run. One that does not tell, as Ruby's never do, is left out."""
    if not identities:
        return {}
    replies = redis.call("MGET", *map(redis.keys.registered, identities))
    told = {identity: _signatures(raw) for identity, raw in zip(identities, replies, strict=True)}
    return {identity: signatures for identity, signatures in told.items() if signatures is not None}


def _signatures(raw: bytes | None) -> Mapping[str, str] | None:
    try:
        told: object = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    return {name: str(digest) for name, digest in cast("dict[str, object]", told).items()}
