"""The limit of a class in code, before a limit set at run time.

The first of these applies:

1. ``ConcurrencyLimits(limits=…)`` for its name.
2. The option ``concurrency_limit`` of the job, or of all jobs.
3. The first matching query of ``limits``.
4. A share of the fleet's threads by urgency, if enabled.
5. No limit.

With ``fair_share``, each key is also limited to this share of the fleet's threads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.characteristics import EVERY_JOB, Query
from offsider.core.errors import ConfigurationError, InvalidOptions, InvalidQuery
from offsider.storage.slots import ANY_RATE, Rate

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.jobs.declared import Declared

OPTION = "concurrency_limit"
RATE_LIMIT = "rate_limit"
FAIR_SHARE = "fair_share"
MAX_LIMIT = 1_000_000
#: Each start within the window takes about 100 bytes.
MAX_STARTS = 10_000
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_RATE = re.compile(r"([1-9]\d{0,6})/(?:(second|minute|hour|day)|([1-9]\d{0,6})s?)")
#: GitLab's shares, of all threads of the fleet.
SHARES = {"high": 0.35, "low": 0.25, "throttled": 0.15}

Given: TypeAlias = int | Callable[[], int | None] | None
"""Maximum of concurrent runs; 0 or None: no limit; negative: nothing runs. Or a function that returns it."""


def number(value: object) -> int:
    """Return a limit as a number. Raises InvalidOptions."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not -MAX_LIMIT <= value <= MAX_LIMIT:
        raise InvalidOptions(
            "a limit must be a whole number of concurrent runs (0 or None: no limit, negative: nothing runs), "
            f"got {value!r}"
        )
    return max(-1, value)


def rate(value: object) -> Rate:
    """Return a rate limit such as ``"100/minute"``; None is no limit. Raises InvalidOptions."""
    if value is None:
        return ANY_RATE
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) > MAX_STARTS or int(match[3] or 1) > _UNITS["day"]:
        raise InvalidOptions(
            'a rate limit must be like "100/minute" (second, minute, hour or day), or "100/30" for 30 seconds, with 1 '
            f"to {MAX_STARTS:,} starts in up to a day; got {value!r}"
        )
    seconds = _UNITS[match[2]] if match[2] else int(match[3])
    return Rate(int(match[1]), seconds * 1000)


def check_rate(value: object) -> None:
    """Raise InvalidOptions unless the value is a rate limit, or a function that returns one."""
    if not callable(value):
        rate(value)


def check_share(value: object) -> None:
    """Raise InvalidOptions unless the value is a share of all threads."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise InvalidOptions(f"a fair share must be above 0 and at most 1, such as 0.25 of all threads; got {value!r}")


class Rules:
    """The limits in code, by class.

    Args:
        limits: by the stored name of a class, or by a query; each class that matches has its own limit.
        default_shares: limit classes without a limit to their share of the fleet's threads.

    Raises:
        ConfigurationError: a limit is invalid, or a query cannot be parsed.
    """

    def __init__(self, limits: Mapping[str, Given], *, default_shares: bool) -> None:
        self._by_name: dict[str, Given] = {}
        self._by_query: list[tuple[Query, Given]] = []
        self._shares = default_shares
        for key, given in limits.items():
            self._add(key, given)

    def _add(self, key: str, given: Given) -> None:
        try:
            if not callable(given):
                number(given)
            if not key:
                raise InvalidOptions("the key must be the stored name of a class, or a query; it is empty")
            if "=" in key or key == EVERY_JOB:
                self._by_query.append((Query.parse(key), given))
            else:
                self._by_name[key] = given
        except (ValueError, InvalidQuery) as error:
            raise ConfigurationError(f"ConcurrencyLimits(limits={{{key!r}: …}}): {error}") from None

    def unknown(self, names: Collection[str]) -> list[str]:
        """Return the names in ``limits`` that are not among the given job names."""
        return sorted(name for name in self._by_name if name not in names)

    def wants_threads(self, jobs: Iterable[Declared]) -> bool:
        """Whether limits of these classes depend on the number of threads in the fleet."""
        return self._shares or any(FAIR_SHARE in job.functions for job in jobs)

    def rate_of(self, job: Declared) -> Rate:
        """Return the rate limit of a class.

        Raises:
            InvalidOptions: its option or the result of its function is not a rate limit.
            Exception: the exception of its function.
        """
        given = job.functions.get(RATE_LIMIT)
        value = given() if callable(given) else given
        try:
            return rate(value)
        except ValueError as error:
            raise InvalidOptions(f"{job.name}: {RATE_LIMIT}: {error}") from None

    def limit_of(self, job: Declared, config: Config, fleet_threads: int) -> int:
        """Return the limit of a class: 0 for no limit, -1 if nothing may run.

        Raises:
            InvalidOptions: its option or the result of its function is not a limit.
            Exception: the exception of its function.
        """
        limit = self._limit(job, config, fleet_threads)
        if limit < 0 or FAIR_SHARE not in job.functions:
            return limit
        share = math.ceil(job.functions[FAIR_SHARE] * fleet_threads) or 1
        return min(limit or share, share)

    def _limit(self, job: Declared, config: Config, fleet_threads: int) -> int:
        given = self._given(job, config)
        if given is None:
            return math.ceil(SHARES[job.characteristics.urgency] * fleet_threads) if self._shares else 0
        value = given() if callable(given) else given
        try:
            return number(value)
        except ValueError as error:
            raise InvalidOptions(f"{job.name}: {OPTION}: {error}") from None

    def _given(self, job: Declared, config: Config) -> Given:
        for name in (job.name, *job.aliases):
            if name in self._by_name:
                return _explicit(self._by_name[name])
        option = {**config.jobs.stored, **job.stored_options(config)}.get(OPTION)
        if option is not None:
            return number(option)
        attributes = job.characteristics.attributes(job.name)
        return next((_explicit(given) for query, given in self._by_query if query.matches(attributes)), None)


def _explicit(given: Given) -> Given:
    """An explicit None for a class means no limit, and stops the search."""
    return 0 if given is None else given
