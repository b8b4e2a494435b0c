"""Limiters: objects that limit the use of a resource across all processes, in jobs, web requests and scripts.

A limiter is created once, at import or for each customer, without a connection. `Limiter.within_limit` returns a
context manager (`Use`), which waits up to ``wait_timeout`` seconds and then raises `OverLimit`.
"""

from __future__ import annotations

import math
import random
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from offsider.config.default import default_config
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.clock import MAX_SECONDS, as_seconds
from offsider.core.errors import ConfigurationError, OverLimit
from offsider.core.suggestions import suggest
from offsider.ext.limiters import store
from offsider.ext.limiters.store import Definition
from offsider.ext.limiters.use import Use
from offsider.logs.setup import logger

if TYPE_CHECKING:
    from typing import Unpack

    from offsider.config.config import Config
    from offsider.runtime.context import JobContext

EXTENSION = "limiters"
DAY_SECONDS = 86_400.0
#: Minimum number of points that return in a second.
MIN_REFILL = 1e-6
Unit: TypeAlias = Literal["second", "minute", "hour", "day"]
UNITS: dict[str, float] = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": DAY_SECONDS}
Backoff: TypeAlias = Callable[["Limiter | None", "JobContext", Exception], float]
"""Takes the limiter (None for an error of another kind), the job and the error; returns the seconds until it runs."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")
#: The definition of a limiter is stored again after this time, much less than the minimum ``ttl``.
_REGISTER_SECONDS = 3600.0
_MAX_REGISTERED = 10_000
_LONGEST_PAUSE_SECONDS = 0.025
_IN_ANY_CASE = -1.0


def default_backoff(limiter: Limiter | None, job: JobContext, error: Exception) -> float:
    """Return the time until the limiter is free, and a random part of a time that doubles with each reschedule.

    That time is 2 seconds at first, and at most ten minutes more each time: 12 hours in total for 20 reschedules. For
    an error without a limiter it is Sidekiq's delay.
    """
    if not isinstance(error, OverLimit):
        return sidekiq_backoff(limiter, job, error)
    count = job.payload.get("overrated", 1)
    # A slot becomes free at any time before its lock timeout.
    known = 0.0 if limiter is not None and limiter.kind == "concurrent" else error.retry_in_seconds
    return known + random.uniform(0.0, min(2.0 ** min(count, 30), 600.0 * count))  # not for security


def sidekiq_backoff(_limiter: Limiter | None, job: JobContext, _error: Exception) -> float:
    """Return Sidekiq Enterprise's delay: about five minutes more each time, 18 hours in total for 20 reschedules."""
    return 300.0 * job.payload.get("overrated", 1) + random.randrange(300) + 1  # not for security


@dataclass(frozen=True, slots=True)
class LimiterSettings:
    """Settings of the extension; see `Limiters`."""

    server: str = MAIN
    reschedule: int = 20
    backoff: Backoff = default_backoff
    ttl_seconds: float = 90 * DAY_SECONDS


class LimiterOptions(TypedDict, total=False):
    """Options of all limiters; each overrides the extension's option.

    Attributes:
        backoff: called with the limiter, the job and the error; returns the seconds until a job over the limit runs
            again. ``job.payload["overrated"]`` is the number of its reschedules, including this one.
        reschedule: number of times that a job is rescheduled; after that the error is a failure. 0: at once.
        ttl: the limiter is deleted when it was unused for this time, in seconds; at least a day.
        config: the configuration; default: the process's.
    """

    backoff: Backoff
    reschedule: int
    ttl: float | timedelta
    config: Config


class Limiter:
    """A limit that all processes share. Create one with `concurrent`, `bucket`, `window`, `leaky`, `points` or
    `unlimited`.

    ::

        STRIPE = Limiter.window("stripe", 100, "second")

        with STRIPE.within_limit():  # or: async with
            charge(card)

    Two limiters of the same kind and name are the same limiter. Thread-safe. The extension `Limiters` is required.

    Attributes:
        definition: kind, name and limits.
        backoff, reschedule: as in `LimiterOptions`; None for the extension's options.
    """

    def __init__(self, definition: Definition, **options: Unpack[LimiterOptions]) -> None:
        self.backoff = options.get("backoff")
        self.reschedule = options.get("reschedule")
        self._config = options.get("config")
        if "ttl" in options:
            definition = replace(definition, ttl_seconds=_seconds(definition, "ttl", options["ttl"], DAY_SECONDS))
        self.definition = definition
        _check(definition, self.reschedule)
        for name in options.keys() - LimiterOptions.__annotations__.keys():
            raise _invalid(definition, f"{name!r} is not an option{suggest(name, LimiterOptions.__annotations__)}")
        if self.backoff is not None and not callable(self.backoff):
            raise _invalid(definition, f"backoff must be a function, got {self.backoff!r}")

    @staticmethod
    def concurrent(
        name: str,
        limit: int,
        *,
        wait_timeout: float = 5.0,
        lock_timeout: float = 30.0,
        **options: Unpack[LimiterOptions],
    ) -> ConcurrentLimiter:
        """Return a limiter for the number of blocks that run at the same time; 1 makes it a mutex.

        Args:
            name: letters, digits, ``_`` and ``-``.
            limit: number of slots.
            wait_timeout: seconds to wait for a free slot. Waiting callers try again after a random pause of up to
                25 ms.
            lock_timeout: seconds after which the slot of a block is reclaimed, for example of a killed process. Must
                be longer than any block.
            options: see `LimiterOptions`.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        definition = Definition("concurrent", name, limit)
        lock = _seconds(definition, "lock_timeout", lock_timeout, 0.001)
        return ConcurrentLimiter(_waiting(replace(definition, lock_timeout_seconds=lock), wait_timeout), **options)

    @staticmethod
    def bucket(
        name: str, limit: int, interval: Unit, *, wait_timeout: float = 5.0, **options: Unpack[LimiterOptions]
    ) -> RateLimiter:
        """Return a limiter for uses per calendar second, minute, hour or day (UTC).

        Args:
            name: letters, digits, ``_`` and ``-``.
            limit: uses per interval.
            interval: ``"second"``, ``"minute"``, ``"hour"`` or ``"day"``.
            wait_timeout: seconds to wait for the next interval.
            options: see `LimiterOptions`.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        definition = Definition("bucket", name, limit)
        if interval not in UNITS:
            raise _invalid(definition, f"interval must be one of {', '.join(UNITS)}, got {interval!r}")
        return RateLimiter(_waiting(_every(definition, interval), wait_timeout), **options)

    @staticmethod
    def window(
        name: str, limit: int, interval: Unit | float, *, wait_timeout: float = 5.0, **options: Unpack[LimiterOptions]
    ) -> RateLimiter:
        """Return a limiter for uses in any period of this length (sliding window).

        Args:
            name: letters, digits, ``_`` and ``-``.
            limit: uses per interval.
            interval: a unit as for `bucket`, or seconds.
            wait_timeout: seconds to wait until enough uses have left the window.
            options: see `LimiterOptions`.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        return RateLimiter(_waiting(_every(Definition("window", name, limit), interval), wait_timeout), **options)

    @staticmethod
    def leaky(
        name: str, size: int, drain: Unit | float, *, wait_timeout: float = 5.0, **options: Unpack[LimiterOptions]
    ) -> RateLimiter:
        """Return a leaky bucket: a burst of up to ``size`` uses, then ``size`` uses per ``drain``, evenly.

        Args:
            name: letters, digits, ``_`` and ``-``.
            size: uses that fill the bucket.
            drain: time in which the full bucket drains: a unit as for `bucket`, or seconds.
            wait_timeout: seconds to wait until the bucket has drained enough.
            options: see `LimiterOptions`.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        return RateLimiter(_waiting(_every(Definition("leaky", name, size), drain), wait_timeout), **options)

    @staticmethod
    def points(name: str, limit: int, refill_per_second: float, **options: Unpack[LimiterOptions]) -> PointsLimiter:
        """Return a limiter for operations of different costs, such as GraphQL queries. It never waits.

        Args:
            name: letters, digits, ``_`` and ``-``.
            limit: maximum number of points.
            refill_per_second: points that return each second.
            options: see `LimiterOptions`.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        definition = Definition("points", name, limit)
        _check(definition, None)
        refill = cast("object", refill_per_second)
        if isinstance(refill, bool) or not isinstance(refill, int | float) or not MIN_REFILL <= refill <= MAX_SECONDS:
            raise _invalid(definition, f"refill_per_second must be a number of at least {MIN_REFILL:g}, got {refill!r}")
        return PointsLimiter(_every(definition, limit / refill), **options)

    @staticmethod
    def unlimited(*_args: object, **_options: object) -> UnlimitedLimiter:
        """Return a limiter without a limit, which uses no server: for tests, and for customers without a limit.

        It accepts the arguments of all other kinds.
        """
        return UnlimitedLimiter(Definition("unlimited", "unlimited"))

    @property
    def name(self) -> str:
        """Its name."""
        return self.definition.name

    @property
    def kind(self) -> str:
        """``concurrent``, ``bucket``, ``window``, ``leaky``, ``points`` or ``unlimited``."""
        return self.definition.kind

    def used(self) -> int:
        """Return the slots in use, or the amount that counts toward the limit now, rounded up."""
        return store.used(self._server().redis, self._complete())

    def remaining(self) -> int:
        """Return what is left of the limit now; 0 at the limit."""
        return max(0, math.floor(self.definition.limit) - self.used())

    def reset(self) -> bool:
        """Forget all uses and statistics. Return False if there are none."""
        return store.reset(self._server().redis, self.definition.member)

    def __str__(self) -> str:
        return f"{self.kind} limiter {self.name!r}"

    def __repr__(self) -> str:
        return f"Limiter.{self.kind}({self.name!r}, {self.definition.limit!r})"

    # ------------------------------------------------------------------------------------ for subclasses

    def _server(self) -> Installation:
        config = self._config or default_config()
        return Installation.of(config, settings_of(config, str(self)).server)

    def _complete(self) -> Definition:
        """Return the definition with the ttl of the extension, if the limiter has none."""
        if self.definition.ttl_seconds:
            return self.definition
        settings = settings_of(self._config or default_config(), str(self))
        return replace(self.definition, ttl_seconds=max(settings.ttl_seconds, self.definition.interval_seconds))

    def _take(self, amount: float, holder: str = "") -> Iterator[float]:
        """Take an amount, or a slot; yield the pauses before that.

        Raises OverLimit if it would take longer than ``wait_timeout``.
        """
        server, definition = self._server(), self._complete()
        redis, clock, registered = server.redis, server.config.clock, server.shared.get(_Registered, _Registered)
        if registered.is_due(definition, clock.monotonic()):
            redis.pipeline(store.register(redis.keys, definition, clock.now()))
        started, waited, pause_seconds = clock.monotonic(), 0.0, 0.002
        while True:
            patience = max(0.0, definition.wait_timeout_seconds - waited)
            reply, used, wait_us = store.take(
                redis, definition, amount, patience_seconds=patience, waited_seconds=waited, holder=holder
            )
            if reply == store.TAKEN:
                return
            wait_seconds = max(0, wait_us) / 1_000_000
            if reply == store.REFUSED:
                left = max(0.0, math.floor(definition.limit) - used)
                raise OverLimit(self, remaining=left, retry_in_seconds=wait_seconds)
            # Slots become free at any time; all other limits at a known time.
            least = 0.0 if definition.kind == "concurrent" else wait_seconds
            yield min(patience, least + pause_seconds * random.uniform(0.5, 1.0))  # spreads callers
            pause_seconds = min(_LONGEST_PAUSE_SECONDS, pause_seconds * 2)
            waited = clock.monotonic() - started


class ConcurrentLimiter(Limiter):
    """See `Limiter.concurrent`."""

    def within_limit(self) -> Use:
        """Hold a slot inside the block.

        Raises:
            OverLimit: when the block is entered, and no slot became free in time.
        """
        holder = secrets.token_hex(8)
        return Use(self._server(), str(self), self._take(1, holder), lambda _: self._release(holder))

    def _release(self, holder: str) -> None:
        if not store.release(self._server().redis, self.definition, holder):
            logger.warning(
                "%s: a block ran longer than lock_timeout (%g s): its slot was reclaimed, so more blocks than the "
                "limit may have run; raise lock_timeout",
                self,
                self.definition.lock_timeout_seconds,
            )


class RateLimiter(Limiter):
    """See `Limiter.bucket`, `Limiter.window` and `Limiter.leaky`."""

    def within_limit(self, *, used: int = 1) -> Use:
        """Count one or more uses, then run the block.

        Args:
            used: number of uses, at most the limit.

        Raises:
            ConfigurationError: ``used`` is not between 1 and the limit.
            OverLimit: when the block is entered, and the limit would be exceeded for longer than ``wait_timeout``.
        """
        _check_amount(self.definition, "used", used, int)
        return Use(self._server(), str(self), self._take(used))


class PointsLimiter(Limiter):
    """See `Limiter.points`."""

    def within_limit(self, *, estimate: float) -> Use:
        """Take an estimate of the points, then run the block, which can report the actual number.

        ::

            with shopify.within_limit(estimate=100) as use:
                reply = query(shop)
                use.points_used(reply.cost)

        Args:
            estimate: points that the block probably needs.

        Raises:
            ConfigurationError: ``estimate`` is not between 1 and the limit.
            OverLimit: when the block is entered, and too few points are left.
        """
        _check_amount(self.definition, "estimate", estimate, int, float)
        return Use(self._server(), str(self), self._take(estimate), lambda points: self._correct(points, estimate))

    def _correct(self, points: float | None, estimate: float) -> None:
        if points is not None and points != estimate:
            redis = self._server().redis
            store.take(redis, self._complete(), points - estimate, patience_seconds=_IN_ANY_CASE)


class UnlimitedLimiter(Limiter):
    """See `Limiter.unlimited`."""

    def within_limit(self, **_amounts: object) -> Use:
        """Run the block. Accepts the arguments of all other kinds."""
        return Use(None, str(self))

    def used(self) -> int:
        return 0

    def reset(self) -> bool:
        return False


class _Registered:
    """When this process stored the definition of each limiter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[Definition, float] = {}

    def is_due(self, definition: Definition, now: float) -> bool:
        """Return whether to store the definition now, and remember that it was stored."""
        last = self._times.get(definition)
        if last is not None and now - last < _REGISTER_SECONDS:
            return False
        with self._lock:
            if len(self._times) >= _MAX_REGISTERED:
                self._times.clear()
            self._times[definition] = now
        return True


def settings_of(config: Config, what: str) -> LimiterSettings:
    """Return the settings of the extension; ConfigurationError with ``what`` if it is not installed."""
    found: Any = config.extensions.get(EXTENSION)
    if found is None:
        raise ConfigurationError(
            f"{what} needs the extension Limiters: call config.use(offsider.ext.limiters.Limiters())"
        )
    settings: LimiterSettings = found.settings
    return settings


def _every(definition: Definition, interval: str | float) -> Definition:
    if isinstance(interval, str) and interval not in UNITS:
        raise _invalid(definition, f"interval must be one of {', '.join(UNITS)}, or seconds, got {interval!r}")
    given = UNITS[interval] if isinstance(interval, str) else interval
    return replace(definition, interval_seconds=_seconds(definition, "interval", given, 0.001))


def _waiting(definition: Definition, wait_timeout: float) -> Definition:
    return replace(definition, wait_timeout_seconds=_seconds(definition, "wait_timeout", wait_timeout, 0.0))


def _seconds(definition: Definition, what: str, value: object, at_least: float) -> float:
    name = f"{definition.kind} limiter {definition.name!r}: {what}"
    return as_seconds(value, name, at_least=at_least, error=ConfigurationError)


def _check(definition: Definition, reschedule: object) -> None:
    name, limit = definition.name, definition.limit
    if type(name) is not str or not _NAME.fullmatch(name):
        raise _invalid(definition, "a name must have 1 to 200 letters, digits, _ and -")
    if definition.kind != "unlimited" and (type(limit) is not int or limit < 1):
        raise _invalid(definition, f"the limit must be a whole number of at least 1, got {limit!r}")
    if reschedule is not None and (type(reschedule) is not int or reschedule < 0):
        raise _invalid(definition, f"reschedule must be a whole number of at least 0, got {reschedule!r}")
    longest = max(definition.interval_seconds, definition.lock_timeout_seconds)
    if definition.ttl_seconds and definition.ttl_seconds < longest:
        raise _invalid(
            definition, f"ttl is {definition.ttl_seconds:g} s; it must not be shorter than interval and lock_timeout"
        )


def _check_amount(definition: Definition, what: str, amount: object, *types: type) -> None:
    if type(amount) not in types or not 1 <= amount <= definition.limit:  # type: ignore[operator]
        raise _invalid(definition, f"{what} must be from 1 to the limit, {definition.limit}, got {amount!r}")


def _invalid(definition: Definition, text: str) -> ConfigurationError:
    return ConfigurationError(f"{definition.kind} limiter {definition.name!r}: {text}")
