"""One periodic job: its schedule and its payload."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from offsider.client.prepared import declared_of
from offsider.config.routing import MAIN, route
from offsider.core.arguments import check_json
from offsider.core.errors import ConfigurationError, OffsiderError, UnknownJob
from offsider.core.options import FUNCTIONS, INSTALLED_BY, JobOptions, check_known, check_options, wire_options
from offsider.core.suggestions import suggest
from offsider.ext.periodic.cron import Cron, schedule_of
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.config.config import Config

GRACE_SECONDS = 60.0
#: Sources of entries.
CODE, FILE, REDIS = "code", "file", "redis"
#: Keys of ``[periodic.NAME]``, besides the options of a push.
KEYS = ("cron", "every", "job", "tz", "args", "kwargs", "description", "grace_seconds", "enabled")
#: Options about the transaction and the replicas of a push: the claim of a tick has none.
_NOT_FOR_TICKS = ("after_commit", "wait_replicas")

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


@dataclass(frozen=True)
class Entry:
    """A periodic job as registered.

    Attributes:
        name: unique name.
        cron: five fields, a word such as ``@daily``, or an interval: ``@every 10s``.
        job: the stored name of the job.
        tz: time zone of ``cron``.
        args, kwargs: the arguments of every push.
        options: further fields of the payload, such as the queue. They override the options of the declared job.
        description: free text.
        grace_seconds: maximum delay of a tick, for an interval at most its length. Older ticks are skipped and logged.
        source: ``"code"``, ``"file"``, or ``"redis"`` for entries added at run time.
        server: the server to push to; empty: the server of the job itself.

    Raises:
        ConfigurationError: the entry is invalid; the message names it and the reason.
    """

    name: str
    cron: str
    job: str
    tz: str = "UTC"
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    description: str = ""
    grace_seconds: float = GRACE_SECONDS
    source: str = CODE
    server: str = ""

    def __post_init__(self) -> None:
        try:
            self._check()
        except OffsiderError as error:
            raise ConfigurationError(f"periodic job {self.name!r}: {error}") from None

    def _check(self) -> None:
        # Files and Redis may contain anything.
        for key in ("name", "job", "description", "server"):
            value: object = getattr(self, key)
            _expect(isinstance(value, str), f"{key} expects a string, got {value!r}")
        _expect(_NAME.fullmatch(self.name), "a name must have 1 to 100 letters, digits and _ . : -")
        _expect(self.job, "job expects a job or its name")
        _expect(_is_grace(self.grace_seconds), f"grace_seconds expects up to a year, got {self.grace_seconds!r}")
        _expect(
            isinstance(self.args, list | tuple), f"args expects a list of arguments, got {type(self.args).__name__}"
        )
        _expect(isinstance(self.kwargs, dict), f"kwargs expects arguments by name, got {type(self.kwargs).__name__}")
        object.__setattr__(self, "args", tuple(self.args))  # JSON has only lists
        for value in (*self.args, self.kwargs, self.options):
            kind = type(value).__name__
            _expect(check_json(value) is None, f"a value of type {kind} would change when it is stored as JSON")
        check_known(self.options, job_name=self.job)
        interval_seconds = self.ticks.interval_seconds
        if interval_seconds:  # after an outage only the last tick is pushed, not a burst
            object.__setattr__(self, "grace_seconds", min(self.grace_seconds, interval_seconds))

    @cached_property
    def ticks(self) -> Cron:
        """The schedule."""
        return Cron(self.cron, self.tz)

    @property
    def queue(self) -> str:
        """The queue of its jobs; empty to use the queue of the job itself."""
        return str(self.options.get("queue", ""))

    def server_of(self, config: Config) -> str:
        """Return the name of the server to which its jobs are pushed. Workers of that server claim its ticks."""
        declared = registry.peek(self.job)
        if self.server or declared is None:
            return self.server or MAIN
        return route(declared, config.routing.rules, config.jobs).server

    def item(self, tick: int) -> dict[str, Any]:
        """Return the item that a client pushes at a tick."""
        called: object = self.job
        with suppress(UnknownJob):  # declared in another program, perhaps in Ruby
            called = registry.find(self.job)
        item = {**self.options, "class": called, "args": list(self.args)}
        if self.kwargs:
            item["kwargs"] = dict(self.kwargs)
        if self.server:
            item["server"] = self.server
        return item | {"periodic": {"name": self.name, "at": tick}}

    def as_json(self) -> str:
        """Return the stored form. Equal entries have the same text."""
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "name"}
        return json.dumps(stored, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, name: str, raw: str | bytes) -> Entry:
        """Parse a stored entry; unknown keys of later versions are ignored.

        Raises:
            ConfigurationError: the stored entry is invalid.
        """
        try:
            stored: Any = json.loads(raw)
            known = {one.name for one in fields(cls)} - {"name"}
            return cls(name, **{key: value for key, value in stored.items() if key in known})
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, ConfigurationError):
                raise
            raise ConfigurationError(f"periodic job {name!r}: the stored entry is invalid") from error


def make(
    name: str | None,
    cron: str | None,
    job: object,
    *,
    every: object = None,
    options: Mapping[str, Any] | None = None,
    tz: str | None = None,
    grace_seconds: float | None = None,
    defaults: tuple[str, float] = ("UTC", GRACE_SECONDS),
    **more: Any,  # further attributes of the entry
) -> Entry:
    """Build the entry of a job, or of a job's name, with ``cron`` or ``every``. Its name defaults to the job's name.

    Args:
        defaults: time zone and maximum delay of an entry without them.

    Raises:
        ConfigurationError: the job or an option is invalid.
    """
    declared = declared_of(job)
    called: Any = job if declared is None else declared.name
    name = called if name is None else name
    stored = dict(options or {})
    more |= {"server": stored.pop("server")} if "server" in stored else {}
    try:
        # Values of extensions are checked when the configuration is known.
        own = {key: value for key, value in stored.items() if key != "extra"}
        check_options(own, job_name=str(called), known_extra=INSTALLED_BY.keys() - FUNCTIONS)
        for key in _NOT_FOR_TICKS:
            _expect(key not in stored, f"{key} is not supported for periodic jobs")
        expression = schedule_of(cron, every)
    except OffsiderError as error:
        raise ConfigurationError(f"periodic job {name!r}: {error}") from None
    more["tz"] = defaults[0] if tz is None else tz
    more["grace_seconds"] = defaults[1] if grace_seconds is None else grace_seconds
    return Entry(cast("str", name), expression, called, options=wire_options(stored), **more)


def from_table(name: str, table: Mapping[str, Any], defaults: tuple[str, float]) -> Entry | None:
    """Build the entry of ``[periodic.NAME]`` in a file; None if ``enabled = false``.

    Raises:
        ConfigurationError: a key is missing or unknown, or a value is invalid.
    """
    known = (*KEYS, *JobOptions.__annotations__)
    for key in table:
        if key not in known:
            raise ConfigurationError(f"periodic job {name!r}: unknown key {key}{suggest(key, known)}")
    enabled = table.get("enabled", True)
    if not isinstance(enabled, bool):
        raise ConfigurationError(f"periodic job {name!r}: enabled must be true or false, got {enabled!r}")
    if not enabled:
        return None
    if "job" not in table:
        raise ConfigurationError(f'periodic job {name!r}: job is missing, as in job = "shop.jobs.clean_up"')
    more = {key: table[key] for key in KEYS if key in table and key not in ("cron", "job", "enabled")}
    options = {key: table[key] for key in table if key not in KEYS}
    return make(name, table.get("cron"), table["job"], options=options, source=FILE, defaults=defaults, **more)


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise ConfigurationError(message)


def _is_grace(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 366 * 86_400
