"""Lists the jobs on a server by location, for the end of every row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class StoredJobs:
    """Jids by location; jobs in lists of extensions count as waiting."""

    waiting: list[str] = field(default_factory=list[str])
    dead: list[str] = field(default_factory=list[str])
    private: list[str] = field(default_factory=list[str])

    @property
    def unfinished(self) -> list[str]:
        """Jobs that will run."""
        return self.waiting + self.private

    @classmethod
    def of(cls, raw: Any) -> StoredJobs:
        """Read all jobs on the server of this redis-py client."""
        found = cls()
        for key in raw.scan_iter("queue:*", count=1000):
            found.waiting += jids(raw.lrange(key, 0, -1))
        for key in ("retry", "schedule"):
            found.waiting += jids(raw.zrange(key, 0, -1))
        for key in raw.smembers("offsider:places"):
            found.waiting += jids(raw.lrange(key, 0, -1))
        found.dead += jids(raw.zrange("dead", 0, -1))
        found.private += jids(entries(raw))
        return found


def jids(payloads: Iterable[bytes]) -> list[str]:
    return [jid for jid in values("jid", payloads) if isinstance(jid, str)]


def values(key: str, payloads: Iterable[bytes]) -> Iterator[Any]:
    """Return the values of a key in those payloads that have it and that can be hashed."""
    for payload in payloads:
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            value = json.loads(payload)[key]
            hash(value)
            yield value


def entries(raw: Any) -> list[bytes]:
    """Return all entries of private lists."""
    keys = raw.scan_iter("offsider:working:*", count=1000)
    return [entry for key in keys for entry in raw.lrange(key, 0, -1)]
