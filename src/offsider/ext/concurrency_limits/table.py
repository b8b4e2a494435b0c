"""The limits in force in this process: one dict lookup for each run.

Limits set at run time are read once a second; a class is added at its first run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from offsider.config.installation import Installation
from offsider.ext.concurrency_limits import store
from offsider.ext.concurrency_limits.keys import Key
from offsider.inspector.process import ProcessSet
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits.rules import Rules
    from offsider.ext.concurrency_limits.store import Settings
    from offsider.jobs.declared import Declared
    from offsider.runtime.context import JobContext

T = TypeVar("T")

#: How often the limits in code are evaluated: functions are called and the fleet's threads counted.
ASK_SECONDS = 10.0
DECLARE_SECONDS = store.DECLARED_SECONDS / 4


@dataclass(frozen=True, slots=True)
class Limited:
    """A class whose runs need a slot.

    Attributes:
        name: the name of the declared job, under which all its aliases are counted.
        declared: the limit in code.
        rate: the rate limit, maximum starts and milliseconds; empty without one.
        key: its key function; None if all its jobs share the limits.
    """

    name: str
    declared: int
    rate: str = ""
    key: Key | None = None

    def group(self, job: JobContext) -> str:
        """Return the name of the group of a job. Raises what `Key` raises."""
        return self.name if self.key is None else store.group_name(self.name, self.key(job))


class Table:
    """Limits by the stored name of a class: `Limited`, or None if the class has no limit.

    Args:
        here: the worker's server.
        rules: the limits in code.
    """

    def __init__(self, here: Installation, rules: Rules) -> None:
        self._here = here
        self._rules = rules
        self._settings: Settings | None = None
        self._in_code: dict[str, int] = {}
        self._rates: dict[str, str] = {}
        self._threads = 0
        self._ask_at = self._declare_at = 0.0
        self._published: tuple[dict[str, int], dict[str, str]] = ({}, {})
        self.known: dict[str, Limited | None] = {}

    def learn(self, stored_name: str) -> Limited | None:
        """Look up a class at its first run here. Raises RedisFailure if the limits set at run time cannot be read."""
        if self._settings is None:
            self._settings = store.settings(self._here.redis)
        limited = self.known[stored_name] = self._limited(stored_name, self._settings)
        return limited

    def refresh(self, settings: Settings, now: float) -> None:
        """Apply the current settings.

        Args:
            settings: as stored now.
            now: monotonic seconds.
        """
        self._settings = settings
        if now >= self._ask_at:
            jobs = registry.all_jobs()
            if self._rules.wants_threads(jobs):
                self._threads = ProcessSet(self._here).total_concurrency
            self._in_code = {job.name: self._ask(job) for job in jobs}
            self._rates = {job.name: self._ask_rate(job) for job in jobs}
            self._ask_at = now + ASK_SECONDS
            self._publish(now)
        self.known = {stored_name: self._limited(stored_name, settings) for stored_name in self.known}

    def declared(self, name: str) -> int:
        """Return the limit in code of a class; 0 if it has none or is not declared here."""
        job = registry.peek(name)
        if job is None:
            return 0
        if job.name not in self._in_code:
            self._in_code[job.name] = self._ask(job)
        return self._in_code[job.name]

    def _publish(self, now: float) -> None:
        """Publish the limits in code and the aliases, if they changed or are due."""
        limited = {name: limit for name, limit in self._in_code.items() if limit}
        aliases = {alias: job.name for job in registry.all_jobs() for alias in job.aliases}
        if now < self._declare_at and (limited, aliases) == self._published:
            return
        gone = dict.fromkeys(self._published[0].keys() - limited.keys(), 0)
        store.declare(self._here.redis, limited | gone, aliases, self._here.config.clock.now())
        self._published, self._declare_at = (limited, aliases), now + DECLARE_SECONDS

    def _limited(self, stored_name: str, settings: Settings) -> Limited | None:
        job = registry.peek(stored_name)
        name = stored_name if job is None else job.name
        declared = self.declared(stored_name)
        if job is None:
            return Limited(name, declared) if effective(name, declared, settings) else None
        if name not in self._rates:
            self._rates[name] = self._ask_rate(job)
        rate = self._rates[name]
        if not (rate or effective(name, declared, settings)):
            return None
        return Limited(name, declared, rate, Key.of(job))

    def _ask(self, job: Declared) -> int:
        """Return the limit in code; if it cannot be evaluated, the previous one."""
        before = self._in_code.get(job.name, 0)
        return self._evaluated(job, lambda: self._rules.limit_of(job, self._here.config, self._threads), before)

    def _ask_rate(self, job: Declared) -> str:
        """Return the rate limit in code; if it cannot be evaluated, the previous one."""
        return self._evaluated(job, lambda: self._rules.rate_of(job), self._rates.get(job.name, ""))

    def _evaluated(self, job: Declared, limit: Callable[[], T], otherwise: T) -> T:
        try:
            return limit()
        except Exception as error:  # noqa: BLE001  # a function of the application
            self._here.config.handle_error(error, {"context": f"evaluating the limits of {job.name}"})
            return otherwise


def effective(name: str, declared: int, settings: Settings) -> int:
    """Return the limit in force: 0 for no limit, -1 if the class is paused."""
    return -1 if name in settings.paused else settings.limits.get(name, declared)
