"""Read and reset the limiters of a server, for pages, the command line and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.limiters import store
from offsider.ext.limiters.limiter import EXTENSION, settings_of
from offsider.inspector.scan import Chunk, scan
from offsider.storage.hashes import whole


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
        unreadable: names of stored fields that another program has spoilt; each counts as 0.
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
    unreadable: Sequence[str] = ()

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
        most: maximum number of limiters that iterating reads.

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
        return iter(self.page(0, self._most))

    def page(self, start: int = 0, count: int = 100) -> list[LimiterState]:
        """Return up to ``count`` limiters, without the first ``start`` ones."""
        return self._states(store.members(self._redis, start, count))

    def scan(self, text: str, cursor: str = "", budget_ms: float = 100, most: int | None = None) -> Chunk[LimiterState]:
        """Scan for limiters within a time budget, in no order; a limiter may be returned twice.

        Args:
            text: literal part of ``<kind>:<name>``, such as ``stripe`` or ``window:``.
            cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
            budget_ms: approximate time limit in milliseconds.
            most: approximate maximum number of matches.
        """

        def read(position: str, step: int) -> tuple[str, int, Iterable[LimiterState]]:
            position, members = store.scan_members(self._redis, text, position, step)
            return position, max(step, len(members)), self._states(members)

        return scan(read, len(self), cursor, budget_ms, most)

    def find(self, kind: str, name: str) -> LimiterState | None:
        """Return one limiter; None if it does not exist."""
        return self._state(store.fields(self._redis, [f"{kind}:{name}"])[0])

    def reset(self, kind: str, name: str) -> bool:
        """Forget the uses and statistics of a limiter. Return False if it does not exist."""
        return store.reset(self._redis, f"{kind}:{name}")

    def delete(self, kind: str, name: str) -> bool:
        """Delete a limiter; its next use creates it again. Return False if it does not exist."""
        return store.delete(self._redis, f"{kind}:{name}")

    def _states(self, members: Sequence[str]) -> list[LimiterState]:
        states = (self._state(fields) for fields in store.fields(self._redis, members))
        return [state for state in states if state is not None]

    def _state(self, fields: Mapping[str, str]) -> LimiterState | None:
        definition = store.definition(fields)
        if definition is None:
            return None
        unreadable: list[str] = []

        def count(name: str) -> int:
            number = whole(fields.get(name, 0))
            if number is None:
                unreadable.append(name)
            return number or 0

        return LimiterState(
            definition.kind,
            definition.name,
            definition.limit,
            definition.interval_seconds,
            store.used(self._redis, definition),
            count("allowed"),
            count("waited"),
            count("wait_us") / 1_000_000,
            count("overages"),
            count("reclaimed"),
            count("held_us") / 1_000_000,
            definition.lock_timeout_seconds,
            definition.wait_timeout_seconds,
            definition.ttl_seconds,
            tuple(unreadable),
        )
