"""Which limit the code gives a class of jobs, before anybody sets another at run time.

1. What ``ConcurrencyLimits(limits=…)`` says of its name.
2. The option ``concurrency_limit`` of the job, or of all jobs.
3. The first query of ``limits`` that chooses it.
4. A share of the fleet's threads, by its urgency, if so wanted.
5. None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.errors import ConfigurationError, InvalidOptions, InvalidQuery
from offsider.core.query import EVERY_JOB, Query

if TYPE_CHECKING:
    from offsider.core.characteristics import Characteristics
    from offsider.jobs.declared import Declared
    from offsider.wiring.config import Config

OPTION = "concurrency_limit"
MOST = 1_000_000
#: GitLab's shares, of all threads of the fleet.
SHARES = {"high": 0.35, "low": 0.25, "throttled": 0.15}

Given: TypeAlias = int | Callable[[], int | None] | None
"""The most runs at one time; 0 or None: no limit; negative: none at all. Or a function that answers it."""


def check_option(value: object) -> None:
    """InvalidOptions, a ValueError, unless it is a limit."""
    number(value)


def number(value: object) -> int:
    """A limit as a number. Raises InvalidOptions."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not -MOST <= value <= MOST:
        raise InvalidOptions(
            f"a limit is a whole number of runs at one time (0 or None: no limit, negative: none runs), got {value!r}"
        )
    return max(-1, value)


class Rules:
    """The limits of the code, by class.

    Args:
        limits: by the stored name of a class, or by a query that chooses classes; each class has its own.
        default_shares: classes without a limit get their share of the fleet's threads.

    Raises:
        ConfigurationError: a limit is none, or a query cannot be read.
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
                raise InvalidOptions("a limit is given for the stored name of a class, or a query, and this is empty")
            if "=" in key or key == EVERY_JOB:
                self._by_query.append((Query.parse(key), given))
            else:
                self._by_name[key] = given
        except (ValueError, InvalidQuery) as error:
            raise ConfigurationError(f"ConcurrencyLimits(limits={{{key!r}: …}}): {error}") from None

    def unknown(self, names: Collection[str]) -> list[str]:
        """The names that limits were given for and that no job has, of these."""
        return sorted(name for name in self._by_name if name not in names)

    @property
    def wants_threads(self) -> bool:
        """Whether the number of the fleet's threads matters."""
        return self._shares

    def limit_of(self, job: Declared, config: Config, fleet_threads: int) -> int:
        """The limit of a class: 0 for none, -1 when it may not run at all.

        Raises:
            InvalidOptions: its option is no limit, or a function answers none.
        """
        given = self._given(job, config)
        if given is None:
            return self._share(job.characteristics, fleet_threads) if self._shares else 0
        try:
            return number(given() if callable(given) else given)
        except ValueError as error:
            raise InvalidOptions(f"{job.name}: {OPTION}: {error}") from None

    def _given(self, job: Declared, config: Config) -> Given:
        for name in (job.name, *job.aliases):
            if name in self._by_name:
                return _said(self._by_name[name])
        option = {**config.jobs.stored, **job.stored_options(config)}.get(OPTION)
        if option is not None:
            return number(option)
        attributes = job.characteristics.attributes(job.name)
        return next((_said(given) for query, given in self._by_query if query.matches(attributes)), None)

    def _share(self, characteristics: Characteristics, fleet_threads: int) -> int:
        return math.ceil(SHARES[characteristics.urgency] * fleet_threads)


def _said(given: Given) -> Given:
    """None said of a class is a limit too: none."""
    return 0 if given is None else given
