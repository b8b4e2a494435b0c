"""The limit of a class in code, before a limit set at run time.

The first of these applies:

1. ``ConcurrencyLimits(limits=…)`` for its name.
2. The option ``concurrency_limit`` of the job, or of all jobs.
3. The first matching query of ``limits``.
4. A share of the fleet's threads: for each key of ``fair_by``, or by urgency, if enabled.
5. No limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.errors import ConfigurationError, InvalidOptions, InvalidQuery
from offsider.core.routing_grammar import EVERY_JOB, Query
from offsider.ext.concurrency_limits import keys

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.characteristics import Characteristics
    from offsider.jobs.declared import Declared

OPTION = "concurrency_limit"
MOST = 1_000_000
#: GitLab's shares, of all threads of the fleet.
SHARES = {"high": 0.35, "low": 0.25, "throttled": 0.15}

#: The share of all threads of the fleet that the jobs of one key of ``fair_by`` may occupy, without another limit.
FAIR_SHARE = 0.25

Given: TypeAlias = int | Callable[[], int | None] | None
"""Maximum of concurrent runs; 0 or None: no limit; negative: nothing runs. Or a function that returns it."""


def check_option(value: object) -> None:
    """Raise InvalidOptions, a ValueError, unless the value is a limit."""
    number(value)


def number(value: object) -> int:
    """Return a limit as a number. Raises InvalidOptions."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not -MOST <= value <= MOST:
        raise InvalidOptions(
            "a limit must be a whole number of concurrent runs (0 or None: no limit, negative: nothing runs), "
            f"got {value!r}"
        )
    return max(-1, value)


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
        return self._shares or any(keys.FAIR_BY in job.functions for job in jobs)

    def rate_of(self, job: Declared) -> str:
        """Return the rate limit of a class: maximum starts and milliseconds; empty without one.

        Raises:
            InvalidOptions: its option or the result of its function is not a rate limit.
            Exception: the exception of its function.
        """
        given = job.functions.get(keys.RATE_LIMIT)
        value = given() if callable(given) else given
        try:
            return keys.rate(value)
        except ValueError as error:
            raise InvalidOptions(f"{job.name}: {keys.RATE_LIMIT}: {error}") from None

    def limit_of(self, job: Declared, config: Config, fleet_threads: int) -> int:
        """Return the limit of a class: 0 for no limit, -1 if nothing may run.

        Raises:
            InvalidOptions: its option or the result of its function is not a limit.
            Exception: the exception of its function.
        """
        given = self._given(job, config)
        if given is None:
            if keys.FAIR_BY in job.functions:
                return math.ceil(FAIR_SHARE * fleet_threads) or 1
            return self._share(job.characteristics, fleet_threads) if self._shares else 0
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

    def _share(self, characteristics: Characteristics, fleet_threads: int) -> int:
        return math.ceil(SHARES[characteristics.urgency] * fleet_threads)


def _explicit(given: Given) -> Given:
    """An explicit None for a class means no limit, and stops the search."""
    return 0 if given is None else given
