"""Read and reset the limiters of a server, for pages, the command line, metrics and the doctor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.wording import counted, listed
from offsider.ext.limiters import store
from offsider.ext.limiters.limiter import EXTENSION, settings_of
from offsider.ext.limiters.store import Definition
from offsider.inspector.finding import Finding, warn
from offsider.inspector.scan import Chunk, scan
from offsider.prometheus import Family, Sample
from offsider.storage import hashes, job_sets
from offsider.storage.hashes import whole

#: More limiters than this have no metrics: each is a time series.
MAX_MEASURED = 100
MANY = 100_000


@dataclass(frozen=True, slots=True)
class LimiterState(Definition):
    """A limiter with its definition, and its statistics since its first use or its reset.

    Attributes:
        used: slots in use, or the amount that counts toward the limit now, rounded up.
        allowed: number of blocks that ran.
        waited: how many of these had to wait.
        wait_seconds: for how long they waited in total.
        overages: number of blocks that were refused.
        reclaimed: number of slots that a block held for longer than ``lock_timeout``.
        held_seconds: for how long slots were held in total, without reclaimed ones.
        unreadable: names of stored fields that another program has spoilt; each counts as 0.
    """

    used: int = 0
    allowed: int = 0
    waited: int = 0
    wait_seconds: float = 0.0
    overages: int = 0
    reclaimed: int = 0
    held_seconds: float = 0.0
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
        server = Installation.of(config)
        if EXTENSION in server.config.extensions:
            server = server.for_server(settings_of(server.config, "LimiterSet").server)
        self._redis = server.redis
        self._index = store.index_key(self._redis.keys)
        self._most = most

    def __len__(self) -> int:
        """Return the number of limiters, including some that expired lately."""
        return int(self._redis.call("ZCARD", self._index))

    def __iter__(self) -> Iterator[LimiterState]:
        return iter(self.page(0, self._most))

    def page(self, start: int = 0, count: int = 100) -> list[LimiterState]:
        """Return up to ``count`` limiters, without the first ``start`` ones."""
        if count < 1:
            return []
        return self._states(self._redis.call("ZRANGE", self._index, start, start + count - 1, "REV"))

    def scan(self, text: str, cursor: str = "", budget_ms: float = 100, most: int | None = None) -> Chunk[LimiterState]:
        """Scan for limiters within a time budget, in no order; a limiter may be returned twice.

        Args:
            text: literal part of ``<kind>:<name>``, such as ``stripe`` or ``window:``.
            cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
            budget_ms: approximate time limit in milliseconds.
            most: approximate maximum number of matches.
        """

        def read(position: str, step: int) -> tuple[str, int, Iterable[LimiterState]]:
            position, found = job_sets.scan_on(self._redis, self._index, text, position, step)
            return position, max(step, len(found)), self._states([member for member, _ in found])

        return scan(read, len(self), cursor, budget_ms, most)

    def find(self, kind: str, name: str) -> LimiterState | None:
        """Return one limiter; None if it does not exist."""
        return next(iter(self._states([f"{kind}:{name}".encode()])), None)

    def reset(self, kind: str, name: str) -> bool:
        """Forget the uses and statistics of a limiter. Return False if it does not exist."""
        return store.reset(self._redis, f"{kind}:{name}")

    def delete(self, kind: str, name: str) -> bool:
        """Delete a limiter; its next use creates it again. Return False if it does not exist."""
        member = f"{kind}:{name}"
        commands = [("DEL", *store.keys_of(self._redis.keys, member)), ("ZREM", self._index, member)]
        return bool(self._redis.pipeline(commands)[0])

    def _states(self, members: Sequence[bytes]) -> list[LimiterState]:
        """Return the limiters with these names, without those that do not exist."""
        commands = [("HGETALL", store.keys_of(self._redis.keys, hashes.text(member))[0]) for member in members]
        replies = self._redis.pipeline(commands, raise_errors=False) if commands else []
        states = (self._state(dict(hashes.texts(reply))) for reply in replies)
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
            **asdict(definition),
            used=store.used(self._redis, definition),
            allowed=count("allowed"),
            waited=count("waited"),
            wait_seconds=count("wait_us") / 1_000_000,
            overages=count("overages"),
            reclaimed=count("reclaimed"),
            held_seconds=count("held_us") / 1_000_000,
            unreadable=tuple(unreadable),
        )


def families(server: Installation) -> list[Family]:
    """Return the number of limiters, and up to `MAX_MEASURED` limiters with use, limit and counters."""
    found = LimiterSet(server, most=MAX_MEASURED)
    count = len(found)
    states = list(found) if count <= MAX_MEASURED else []
    return [
        Family.of("offsider_limiters", "gauge", "Number of limiters.", count),
        _family("limit", "gauge", "Configured limit of a limiter.", {state: state.limit for state in states}),
        _family("used", "gauge", "What counts toward the limit now.", {state: state.used for state in states}),
        _family("allowed_total", "counter", "Permitted blocks.", {state: state.allowed for state in states}),
        _family("overages_total", "counter", "Refused blocks.", {state: state.overages for state in states}),
        _family("wait_seconds_total", "counter", "Time waited.", {state: state.wait_seconds for state in states}),
        _family("reclaimed_total", "counter", "Reclaimed slots.", {state: state.reclaimed for state in states}),
    ]


def check_limiters(server: Installation) -> Iterator[Finding]:
    """Report growth without bound, and blocks that run longer than their lock timeout."""
    found = LimiterSet(server)
    count = len(found)
    late = [state for state in found if state.reclaimed]
    if count > MANY:
        yield warn(
            "limiters",
            f"{counted(count, 'limiter')} are stored",
            cause="each uses memory until it has been unused for its ttl, 90 days by default",
            actions=("use fewer names, or set ttl for limiters with a name for each customer",),
            numbers={"limiters": count},
        )
    if late:
        names = sorted(f"{state.kind} {state.name}" for state in late)
        times = sum(state.reclaimed for state in late)
        yield warn(
            "limiters",
            f"slots of {listed(names)} were reclaimed {counted(times, 'time')}",
            cause="a process died, or a block ran longer than lock_timeout and others ran beyond the limit",
            actions=("raise lock_timeout above the longest block, then run: offsider limiters reset KIND/NAME",),
            subject=names[0],
            numbers={"reclaimed": times, "limiters": len(late)},
        )


def _family(what: str, kind: str, text: str, values: dict[LimiterState, float]) -> Family:
    samples = (Sample(value, {"kind": state.kind, "name": state.name}) for state, value in values.items())
    return Family(f"offsider_limiter_{what}", "counter" if kind == "counter" else "gauge", text, tuple(samples))
