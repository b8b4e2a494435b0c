"""Unique jobs: drop a push while the same job waits or runs.

1. A push takes a lock in the step that stores the job, or is dropped, or replaces the job that waits (`guard`, with
   `rules`).
2. The lock is released when the job starts, or in the script that writes the outcome of the job, or removes the job
   (`releases`). It expires in any case, within 30 days.
3. Operators can list and release locks (`locks`, `web`); the doctor finds locks whose job is gone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.clock import as_seconds
from offsider.core.errors import ConfigurationError
from offsider.ext.unique import rules
from offsider.ext.unique.guard import Guard
from offsider.ext.unique.locks import EXTENSION, Lock, Locks, check_unique
from offsider.ext.unique.releases import Releases
from offsider.ext.unique.rules import unique_by
from offsider.ext.unique.web import make_tab

if TYPE_CHECKING:
    from offsider.config.config import Config

__all__ = ["Lock", "Locks", "Unique", "unique_by"]


class Unique:
    """Extension that stores a job once: for jobs with ``unique_for``, ``unique_until``, ``throttle`` or ``debounce``.

    ::

        config.use(Unique())

        @job(unique_for=600)
        def refresh(account_id: int) -> None: ...

    Args:
        ttl: maximum life of the locks of jobs without ``unique_for``, in seconds or as a timedelta.
        across_queues: the same job in another queue is a duplicate. Default: each queue has its own locks.

    Attributes:
        across_queues: as given.

    Raises:
        ConfigurationError: a duration is invalid.
    """

    name = EXTENSION

    def __init__(self, *, ttl: float | timedelta = 600, across_queues: bool = False) -> None:
        self._ttl_seconds = as_seconds(ttl, "Unique(ttl=…)", at_most=rules.MAX_SECONDS, error=ConfigurationError)
        self.across_queues = across_queues

    def install(self, config: Config) -> None:
        """Add the push guard, middleware and web tab. Raises ConfigurationError if another guard is set."""
        if config.push_guard is not None:
            raise ConfigurationError(f"config.push_guard is already set to {config.push_guard!r}; only one can be set")
        config.push_guard = Guard(config, default_ttl_seconds=self._ttl_seconds, across_queues=self.across_queues)
        for option in (rules.UNIQUE_FOR, rules.THROTTLE, rules.DEBOUNCE):
            config.add_job_option(option, rules.check_seconds)
        config.add_job_option(rules.UNIQUE_UNTIL, rules.check_unique_until)
        for option in (rules.INCLUDING_SCHEDULED, rules.RESCHEDULE_ONCE):
            config.add_job_option(option, rules.check_switch)
        Releases(Installation.of(config)).install()
        config.add_web_tab(make_tab())
        config.doctor_checks.append(check_unique)
