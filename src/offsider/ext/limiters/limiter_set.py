"""Read and reset the limiters of a server, for pages, the command line and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.limiters import store
from offsider.ext.limiters.limiter import EXTENSION, settings_of


@dataclass(frozen=True, slots=True)
class LimiterState:
    """A limiter and its statistics since its first use or its reset.

    Attributes:
        kind: ``concurrent``, ``bucket``, ``window``, ``leaky`` or ``points``.
        name: unique for its kind.
        limit: slots, uses per interval, size of a leaky bucket, or points.
        interval_seconds: the interval, or the time in which a full leaky bucket drains or all points return.
        used: slots in use, or the amount that counts toward the limit now, rounded up.
        allowed: number of blocks that ran.
        waited: how many of these had to wait.
        wait_seconds: for how long they waited in total.
        overages: number of blocks that were refused.
        reclaimed: number of slots that a block held for longer than ``lock_timeout``.
        held_seconds: for how long slots were held in total, without reclaimed ones.
        lock_timeout_seconds, wait_timeout_seconds, ttl_seconds: as declared.
    """

    kind: str
    name: str
    limit: float
    interval_seconds: float
    used: int
    allowed: int
    waited: int
    wait_seconds: float
    overages: int
    reclaimed: int
    held_seconds: float
    lock_timeout_seconds: float
    wait_timeout_seconds: float
    ttl_seconds: float

    @property
    def immediate(self) -> int:
        """Number of blocks that ran without waiting."""
        return self.allowed - self.waited


class LimiterSet:
    """The limiters that were used within their ttl, the most recently used first.

    ::

        for limiter in LimiterSet():
            print(limiter.kind, limiter.name, limiter.overages)

    Args:
        config: the configuration; default: the process's.
        most: maximum number of limiters to read.

    Every method raises RedisFailure if the server is unreachable.
    """

    def __init__(self, config: Config | Installation | None = None, *, most: int = 100) -> None:
        here = Installation.of(config)
        if EXTENSION in here.config.extensions:
            here = here.for_server(settings_of(here.config, "LimiterSet").server)
        self._redis = here.redis
        self._most = most

    def __len__(self) -> int:
        """Return the number of limiters, including some that expired lately."""
        return store.count(self._redis)

    def __iter__(self) -> Iterator[LimiterState]:
        members = store.members(self._redis, self._most)
        states = (self._state(fields) for fields in store.fields(self._redis, members))
        return iter([state for state in states if state is not None])

    def find(self, kind: str, name: str) -> LimiterState | None:
        """Return one limiter; None if it does not exist."""
        return self._state(store.fields(self._redis, [f"{kind}:{name}"])[0])

    def reset(self, kind: str, name: str) -> bool:
        """Forget the uses and statistics of a limiter. Return False if it does not exist."""
        return store.reset(self._redis, f"{kind}:{name}")

    def delete(self, kind: str, name: str) -> bool:
        """Delete a limiter; its next use creates it again. Return False if it does not exist."""
        return store.delete(self._redis, f"{kind}:{name}")

    def _state(self, fields: Mapping[str, str]) -> LimiterState | None:
        definition = store.definition(fields)
        if definition is None:
            return None
        return LimiterState(
            definition.kind,
            definition.name,
            definition.limit,
            definition.interval_seconds,
            store.used(self._redis, definition),
            int(fields.get("allowed", 0)),
            int(fields.get("waited", 0)),
            int(fields.get("wait_us", 0)) / 1_000_000,
            int(fields.get("overages", 0)),
            int(fields.get("reclaimed", 0)),
            int(fields.get("held_us", 0)) / 1_000_000,
            definition.lock_timeout_seconds,
            definition.wait_timeout_seconds,
            definition.ttl_seconds,
        )
