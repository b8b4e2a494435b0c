"""Scans all keys of a database, within a time budget, for keys that no registry refers to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from offsider.storage.redis import Redis

_COUNT = 5_000
_MOST = 100
# Private lists of other reliable fetchers: Sidekiq Pro's, an older form of it, and GitLab's.
_FOREIGN = ("queue:sq|", "queue:sq_", "working:queue:")


@dataclass
class Keyspace:
    """The result of a scan, with up to 100 keys of each kind.

    Attributes:
        complete: all keys were scanned; False if the time budget ran out.
        foreign_lists: private lists of other reliable fetchers.
        deploy_locks: Sidekiq's locks of deploy marks that never expire.
        prefixes: other prefixes that have a set ``queues``.
    """

    complete: bool = True
    foreign_lists: list[str] = field(default_factory=list[str])
    deploy_locks: list[str] = field(default_factory=list[str])
    prefixes: list[str] = field(default_factory=list[str])


def walk(redis: Redis, budget_seconds: float) -> Keyspace:
    """Scan key names until the end, or until the time budget runs out."""
    found = Keyspace()
    deadline = time.monotonic() + budget_seconds
    cursor = b"0"
    while True:
        cursor, names = redis.call("SCAN", cursor, "COUNT", _COUNT)
        for name in names:
            _note(found, name.decode("utf-8", "replace"), redis.keys.prefix)
        if cursor == b"0":
            break
        if time.monotonic() > deadline:
            found.complete = False
            break
    _drop_what_expires(redis, found)
    _drop_what_is_no_set(redis, found)
    return found


def _note(found: Keyspace, key: str, prefix: str) -> None:
    own = key.removeprefix(prefix) if key.startswith(prefix) else ""
    if own.startswith(_FOREIGN):
        _add(found.foreign_lists, key)
    elif own.startswith("deploylock-"):
        _add(found.deploy_locks, key)
    elif own != "queues" and (key == "queues" or key.endswith(":queues")):
        _add(found.prefixes, key.removesuffix("queues"))


def _add(names: list[str], name: str) -> None:
    if len(names) < _MOST:
        names.append(name)


def _drop_what_expires(redis: Redis, found: Keyspace) -> None:
    if found.deploy_locks:
        left = redis.pipeline([("PTTL", key) for key in found.deploy_locks])
        found.deploy_locks = [key for key, ms in zip(found.deploy_locks, left, strict=True) if ms == -1]


def _drop_what_is_no_set(redis: Redis, found: Keyspace) -> None:
    if found.prefixes:
        # The ACL of a user can limit it to its own prefix. Other prefixes are then ignored.
        types = redis.pipeline([("TYPE", f"{prefix}queues") for prefix in found.prefixes], raise_errors=False)
        found.prefixes = sorted(prefix for prefix, kind in zip(found.prefixes, types, strict=True) if kind == b"set")
