"""Unique jobs: drop a push while the same job waits or runs.

1. A push takes a lock in the step that stores the job, or is dropped, or replaces the job that waits (`guard`, with
   `rules`).
2. The lock is freed when the job starts, or in the script that writes the outcome of the job (`middleware`,
   `releases`). It expires in any case.
3. A job that moves to another queue or server moves its lock too (`guard`).
4. A reaper frees locks whose job no longer exists (`reaper`, `places`).
5. Operators can list and free locks (`locks`, `web`).
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.ext.unique import rules
from offsider.ext.unique.doctor import check_unique
from offsider.ext.unique.guard import Guard, Moves
from offsider.ext.unique.locks import Lock, Locks
from offsider.ext.unique.middleware import Runs
from offsider.ext.unique.reaper import make_service
from offsider.ext.unique.releases import Releases
from offsider.ext.unique.rules import Deduplication, unique_by
from offsider.ext.unique.web import make_tab

if TYPE_CHECKING:
    from offsider.config.config import Config

__all__ = ["Deduplication", "Lock", "Locks", "Unique", "unique_by"]


class Unique:
    """Extension that stores a job once: for jobs with ``unique_for``, ``deduplicate``, ``throttle`` or ``debounce``.

    ::

        config.use(Unique())

        @job(unique_for=600)
        def refresh(account_id: int) -> None: ...

    Args:
        ttl: default maximum life of a lock of ``deduplicate``, in seconds or as a timedelta.
        across_queues: the same job in another queue is a duplicate. Default: each queue has its own locks.
        reap_seconds: interval of the search for locks without a job, and the minimum age of such a lock.

    Raises:
        ConfigurationError: a duration is invalid.
    """

    name = "unique"

    def __init__(
        self, *, ttl: float | timedelta = 600, across_queues: bool = False, reap_seconds: float | timedelta = 60
    ) -> None:
        self._ttl_seconds = _seconds("ttl", ttl)
        self._across_queues = across_queues
        self._reap_seconds = _seconds("reap_seconds", reap_seconds)

    def install(self, config: Config) -> None:
        """Add the push guard, middleware, reaper and web tab. Raises ConfigurationError if another guard is set."""
        if config.push_guard is not None:
            raise ConfigurationError(f"config.push_guard is already set to {config.push_guard!r}; only one can be set")
        here = Installation.of(config)
        guard = Guard(config, default_ttl_seconds=self._ttl_seconds, across_queues=self._across_queues)
        config.push_guard = guard
        for option in (rules.UNIQUE_FOR, rules.THROTTLE, rules.DEBOUNCE):
            config.add_job_option(option, rules.check_seconds)
        config.add_job_option(rules.UNIQUE_UNTIL, rules.check_unique_until)
        config.add_job_option(rules.DEDUPLICATE, rules.check_deduplicate)
        releases = Releases(here)
        Runs(here, releases).install()
        Moves(here, guard).install()
        config.add_service(partial(make_service, age_seconds=self._reap_seconds))
        config.add_web_tab(make_tab())
        config.add_doctor_check(check_unique)


def _seconds(name: str, value: float | timedelta) -> float:
    try:
        return rules.seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"Unique({name}=…): {error}") from None
