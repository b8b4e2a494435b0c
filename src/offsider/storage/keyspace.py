"""Examines the keys of a database: scans all of them within a time budget, and checks those that should expire.

`walk` finds keys that no registry refers to; `by_family` estimates memory from a bounded sample.

`stuck` finds leases and signs of life without an expiry. A key can lose its expiry, for example in a restore from a
dump, or by PERSIST. It then blocks forever: no process sweeps, or a dead owner keeps its jobs. The scheduler's lease is
not checked: its value contains its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from offsider.storage import queues
from offsider.storage.keys import FAMILY
from offsider.storage.redis import Redis

_COUNT = 5_000
_MAX_NAMES = 100
# Private lists of other reliable fetchers: Sidekiq Pro's, an older form of it, and GitLab's.
_FOREIGN = ("queue:sq|", "queue:sq_", "working:queue:")
_NEVER = -1
#: Keys of a family that are measured; the others are assumed to have their average size. Sizes differ widely: one of a
#: hundred lists of held jobs may contain nearly all of them.
MAX_MEASURED = 2_000
#: Elements of a key that the server measures. By default it measures five, too few for hashes with one large field.
SAMPLES = 100
OTHER = "other keys"
#: Names of the families whose keys begin with a variable part.
_NAMED = {"identity": "<identity>*", "marks": "<YYYYMMDD>-marks"}


@dataclass
class Keyspace:
    """The result of a scan, with up to 100 keys of each kind.

    Attributes:
        foreign_lists: private lists of other reliable fetchers.
        prefixes: other prefixes that have a set ``queues``.
        queues: names of queues with jobs that are not in the set of queues.
    """

    foreign_lists: list[str] = field(default_factory=list[str])
    prefixes: list[str] = field(default_factory=list[str])
    queues: list[str] = field(default_factory=list[str])


def walk(redis: Redis, budget_seconds: float) -> Keyspace:
    """Scan key names until the end, or until the time budget runs out."""
    found = Keyspace()
    prefix = redis.keys.prefix
    start = redis.keys.queue("").encode()
    foreign = tuple(start + each for each in queues.FOREIGN)
    lists, known = list[bytes](), {redis.keys.queue(name).encode() for name in queues.names(redis)}

    def note(name: bytes) -> None:
        _note(found, name.decode("utf-8", "replace"), prefix)
        if name.startswith(start) and not name.startswith(foreign) and name not in known and len(lists) < _MAX_NAMES:
            lists.append(name)

    _scan(redis, budget_seconds, note)
    found.queues = queues.readable(queues.unregistered(redis, lists)) if lists else []
    _drop_what_is_no_set(redis, found)
    return found


def _scan(redis: Redis, budget_seconds: float, note: Callable[[bytes], None]) -> bool:
    """Pass each key name to ``note``; False if the time budget ran out before the end."""
    deadline, cursor = time.monotonic() + budget_seconds, b"0"
    while True:
        cursor, names = redis.call("SCAN", cursor, "COUNT", _COUNT)
        for name in names:
            note(name)
        if cursor == b"0":
            return True
        if time.monotonic() > deadline:
            return False


def _note(found: Keyspace, key: str, prefix: str) -> None:
    own = key.removeprefix(prefix) if key.startswith(prefix) else ""
    if own.startswith(_FOREIGN):
        _add(found.foreign_lists, key)
    elif own != "queues" and (key == "queues" or key.endswith(":queues")):
        _add(found.prefixes, key.removesuffix("queues"))


def _add(names: list[str], name: str) -> None:
    if len(names) < _MAX_NAMES:
        names.append(name)


def _drop_what_is_no_set(redis: Redis, found: Keyspace) -> None:
    if found.prefixes:
        # The ACL of a user can limit it to its own prefix. Other prefixes are then ignored.
        types = redis.pipeline([("TYPE", f"{prefix}queues") for prefix in found.prefixes], raise_errors=False)
        found.prefixes = sorted(prefix for prefix, kind in zip(found.prefixes, types, strict=True) if kind == b"set")


def stuck(redis: Redis, identities: Sequence[str]) -> list[str]:
    """Return the keys that should expire and do not.

    Args:
        identities: owners whose liveness keys are checked.
    """
    keys = redis.keys
    watched = [keys.sweep, keys.process_cleanup, *map(keys.alive, identities)]
    replies = redis.pipeline([("PTTL", key) for key in watched])
    return [key for key, left in zip(watched, replies, strict=True) if left == _NEVER]


def living(redis: Redis, identities: Sequence[str]) -> set[str]:
    """Return the owners whose liveness key exists."""
    replies = redis.pipeline([("EXISTS", redis.keys.alive(identity)) for identity in identities]) if identities else []
    return {identity for identity, there in zip(identities, replies, strict=True) if there}


@dataclass
class KeyFamily:
    """Keys with a common beginning.

    Attributes:
        name: their pattern in docs/internals/keys.md without the prefix of all keys, for example ``queue:*``.
        count: number of keys.
        measured: number of keys whose memory was measured.
        measured_bytes: their memory.
    """

    name: str
    count: int = 0
    measured: int = 0
    measured_bytes: int = 0
    sample: list[bytes] = field(default_factory=list[bytes], repr=False)

    @property
    def estimated_bytes(self) -> int:
        """Memory of all keys, extrapolated from the measured ones."""
        return self.count * self.measured_bytes // self.measured if self.measured else 0


def by_family(redis: Redis, budget_seconds: float) -> tuple[list[KeyFamily], bool]:
    """Scan the keys of a database, the largest family first; False if the time budget ran out before the end.

    Raises:
        RedisFailure: the server is unreachable, or forbids SCAN.
    """
    families: dict[str, KeyFamily] = {}

    def note(name: bytes) -> None:
        family = _family(name, redis.keys.prefix)
        found = families.setdefault(family, KeyFamily(family))
        found.count += 1
        if len(found.sample) < MAX_MEASURED:
            found.sample.append(name)

    complete = _scan(redis, budget_seconds, note)
    _measure(redis, families.values())
    return sorted(families.values(), key=lambda each: (-each.estimated_bytes, each.name)), complete


def _family(name: bytes, prefix: str) -> str:
    key = name.decode(errors="replace")
    key = key.removeprefix(prefix) if key.startswith(prefix) else ""
    match = FAMILY.match(key)
    if match is None:
        return OTHER
    named = _NAMED.get(match.lastgroup or "")
    return named or (match[0] if match.end() == len(key) else f"{match[0]}*")


def _measure(redis: Redis, families: Iterable[KeyFamily]) -> None:
    for family in families:
        replies = redis.pipeline(
            [("MEMORY", "USAGE", key, "SAMPLES", SAMPLES) for key in family.sample], raise_errors=False
        )
        sizes = [reply for reply in replies if isinstance(reply, int)]  # a key may have expired
        family.measured, family.measured_bytes = len(sizes), sum(sizes)
