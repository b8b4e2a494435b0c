"""Memory of the server by family of keys, estimated from a bounded sample."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from offsider.storage.keys import FAMILY
from offsider.storage.redis import Redis

_COUNT = 5_000
#: Keys of a family that are measured; the others are assumed to have their average size.
MOST_MEASURED = 100
#: Elements of a key that the server measures. By default it measures five, too few for hashes with one large field.
SAMPLES = 100
OTHER = "other keys"


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
    deadline, cursor, complete = time.monotonic() + budget_seconds, b"0", True
    while True:
        cursor, names = redis.call("SCAN", cursor, "COUNT", _COUNT)
        for name in names:
            family = _family(name, redis.keys.prefix)
            found = families.setdefault(family, KeyFamily(family))
            found.count += 1
            if len(found.sample) < MOST_MEASURED:
                found.sample.append(name)
        if cursor == b"0":
            break
        if time.monotonic() > deadline:
            complete = False
            break
    _measure(redis, families.values())
    return sorted(families.values(), key=lambda each: (-each.estimated_bytes, each.name)), complete


def _family(name: bytes, prefix: str) -> str:
    key = name.decode(errors="replace")
    key = key.removeprefix(prefix) if key.startswith(prefix) else ""
    match = FAMILY.match(key)
    if match is None:
        return OTHER
    return "<identity>*" if match["identity"] else match[0] if match.end() == len(key) else f"{match[0]}*"


def _measure(redis: Redis, families: Iterable[KeyFamily]) -> None:
    for family in families:
        replies = redis.pipeline(
            [("MEMORY", "USAGE", key, "SAMPLES", SAMPLES) for key in family.sample], raise_errors=False
        )
        sizes = [reply for reply in replies if isinstance(reply, int)]  # a key may have expired
        family.measured, family.measured_bytes = len(sizes), sum(sizes)
