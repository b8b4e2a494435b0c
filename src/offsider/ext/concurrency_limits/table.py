"""The limits that this process goes by, ready to be looked up: one look for each run.

What was set at run time is read once a second; a class that is not in the table yet is learnt at its first run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.errors import OffsiderError
from offsider.ext.concurrency_limits import store
from offsider.inspector.process import ProcessSet
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits.rules import Rules
    from offsider.ext.concurrency_limits.store import Settings
    from offsider.jobs.declared import Declared
    from offsider.wiring.config import Config

#: How often the limits in code are made out, for which functions are asked and the fleet's threads are counted.
ASK_SECONDS = 10.0
DECLARE_SECONDS = store.DECLARED_SECONDS / 4


@dataclass(frozen=True, slots=True)
class Limited:
    """A class whose runs need a slot.

    Attributes:
        name: under which it is counted: that of the declared job, whatever alias was stored.
        declared: the limit in code.
    """

    name: str
    declared: int


class Table:
    """What is known of each class by its stored name: `Limited`, or None when it has no limit.

    Args:
        config: of the worker.
        rules: the limits of the code.
    """

    def __init__(self, config: Config, rules: Rules) -> None:
        self._config = config
        self._rules = rules
        self._settings: Settings | None = None
        self._in_code: dict[str, int] = {}
        self._threads = 0
        self._ask_at = self._declare_at = 0.0
        self._told: tuple[dict[str, int], dict[str, str]] = ({}, {})
        self.known: dict[str, Limited | None] = {}

    def learn(self, stored_name: str) -> Limited | None:
        """What holds for a class that has not run here yet. RedisFailure when what was set cannot be read."""
        if self._settings is None:
            self._settings = store.settings(self._config.shared_redis())
        limited = self.known[stored_name] = self._limited(stored_name, self._settings)
        return limited

    def refresh(self, settings: Settings, now: float) -> None:
        """Go by what was set meanwhile.

        Args:
            settings: as they are.
            now: monotonic seconds.
        """
        self._settings = settings
        if now >= self._ask_at:
            if self._rules.wants_threads:
                self._threads = ProcessSet(self._config).total_concurrency
            self._in_code = {job.name: self._ask(job) for job in registry.all_jobs()}
            self._ask_at = now + ASK_SECONDS
            self._tell(now)
        self.known = {stored_name: self._limited(stored_name, settings) for stored_name in self.known}

    def declared(self, name: str) -> int:
        """The limit in code of a class that may be declared here; 0 for none."""
        job = registry.peek(name)
        if job is None:
            return 0
        if job.name not in self._in_code:
            self._in_code[job.name] = self._ask(job)
        return self._in_code[job.name]

    def _tell(self, now: float) -> None:
        """Tell others of the limits in code and of aliases, when it is time or one has changed."""
        limited = {name: limit for name, limit in self._in_code.items() if limit}
        aliases = {alias: job.name for job in registry.all_jobs() for alias in job.aliases}
        if now < self._declare_at and (limited, aliases) == self._told:
            return
        gone = dict.fromkeys(self._told[0].keys() - limited.keys(), 0)
        store.declare(self._config.shared_redis(), limited | gone, aliases, self._config.clock.now())
        self._told, self._declare_at = (limited, aliases), now + DECLARE_SECONDS

    def _limited(self, stored_name: str, settings: Settings) -> Limited | None:
        job = registry.peek(stored_name)
        name = stored_name if job is None else job.name
        declared = self.declared(stored_name)
        return Limited(name, declared) if effective(name, declared, settings) else None

    def _ask(self, job: Declared) -> int:
        """The limit in code; when it cannot be told, what it was before."""
        try:
            return self._rules.limit_of(job, self._config, self._threads)
        except OffsiderError as error:
            self._config.handle_error(error, {"context": "the concurrency limit of a class"})
        except Exception as error:  # noqa: BLE001  # a function of the application
            self._config.handle_error(error, {"context": f"the concurrency limit of {job.name}"})
        return self._in_code.get(job.name, 0)


def effective(name: str, declared: int, settings: Settings) -> int:
    """The limit that holds: 0 for none, -1 when the class is paused."""
    return -1 if name in settings.paused else settings.limits.get(name, declared)
