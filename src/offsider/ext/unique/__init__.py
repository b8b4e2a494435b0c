"""Unique jobs: a job that is pushed again while the same one still waits or runs is dropped.

1. A push takes a lock in the step that stores the job, or is dropped (`guard`, and `rules`, `names`).
2. The lock is freed when its job begins or is done with (`runs`, `releases`), and ends by itself in any case.
3. A job that moves to another queue or server takes its lock along (`moves`).
4. Locks whose job is nowhere are found and freed (`reaper`, `places`).
5. They can be looked at and freed by hand (`locks`, `web`).
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from offsider.core.errors import ConfigurationError
from offsider.ext.unique import rules
from offsider.ext.unique.examination import check_unique
from offsider.ext.unique.guard import Guard
from offsider.ext.unique.locks import Lock, Locks
from offsider.ext.unique.moves import Moves
from offsider.ext.unique.names import unique_by
from offsider.ext.unique.reaper import make_service
from offsider.ext.unique.releases import Releases
from offsider.ext.unique.rules import Deduplication
from offsider.ext.unique.runs import Runs
from offsider.ext.unique.web import make_tab

if TYPE_CHECKING:
    from offsider.wiring.config import Config

__all__ = ["Deduplication", "Lock", "Locks", "Unique", "unique_by"]


class Unique:
    """Extension for jobs that are stored once: with the option ``unique_for`` or ``deduplicate``.

    ::

        config.use(Unique())

        @job(extra={"unique_for": 600})
        def refresh(account_id: int) -> None: ...

    Args:
        ttl: the most seconds, or a timedelta, that a lock of ``deduplicate`` is held unless the job says otherwise.
        across_queues: the same job in another queue is a duplicate as well. Default: each queue has locks of its own.
        reap_seconds: how often workers look for locks whose job is nowhere, and the least age of such a lock.

    Raises:
        ConfigurationError: a duration is none.
    """

    name = "unique"

    def __init__(
        self, *, ttl: float | timedelta = 600, across_queues: bool = False, reap_seconds: float | timedelta = 60
    ) -> None:
        self._ttl_seconds = _seconds("ttl", ttl)
        self._across_queues = across_queues
        self._reap_seconds = _seconds("reap_seconds", reap_seconds)

    def install(self, config: Config) -> None:
        """Pushing, running, reaping, and the tab. ConfigurationError when something else guards pushes already."""
        if config.push_guard is not None:
            raise ConfigurationError(f"config.push_guard is taken by {config.push_guard!r}; there can be one only")
        guard = Guard(config, default_ttl_seconds=self._ttl_seconds, across_queues=self._across_queues)
        config.push_guard = guard
        config.add_job_option(rules.UNIQUE_FOR, rules.check_unique_for)
        config.add_job_option(rules.UNIQUE_UNTIL, rules.check_unique_until)
        config.add_job_option(rules.DEDUPLICATE, rules.check_deduplicate)
        releases = Releases(config)
        Runs(config, releases).install()
        Moves(config, guard).install()
        config.add_service(releases.service)
        config.add_service(partial(make_service, age_seconds=self._reap_seconds))
        config.add_web_tab(make_tab())
        config.add_doctor_check(check_unique)


def _seconds(name: str, value: float | timedelta) -> float:
    try:
        return rules.seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"Unique({name}=…): {error}") from None
