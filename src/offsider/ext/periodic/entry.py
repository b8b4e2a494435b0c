"""Periodic jobs: the schedule and payload of each, those registered in this process, and errors in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from offsider.client.prepared import declared_of
from offsider.config.routing import MAIN, route
from offsider.core.arguments import check_json
from offsider.core.errors import ConfigurationError, OffsiderError, UnknownJob
from offsider.core.options import FUNCTIONS, INSTALLED_BY, JobOptions, check_known, check_options, wire_options
from offsider.core.suggestions import suggest
from offsider.ext.periodic.cron import Cron, schedule_of, zone_of
from offsider.jobs import registry
from offsider.jobs.declared import check_all_options

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.installation import Installation

#: Name of the extension, and of its field in the info of a process.
EXTENSION = "periodic"
GRACE_SECONDS = 60.0
#: Sources of entries.
CODE, FILE, REDIS = "code", "file", "redis"
#: Options that are attributes of an entry.
_OWN = ("args", "kwargs", "tz", "grace_seconds", "description", "server")
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


class EntryOptions(JobOptions, total=False):
    """Options of a periodic job: those of its pushes, such as ``queue="low"``, and its own.

    Attributes:
        every: whole seconds or a timedelta between ticks, instead of a cron expression. Ticks are the multiples since
            the epoch: ``every=10`` runs at :00, :10, :20 of each minute.
        args, kwargs: the arguments of its job.
        tz: a time zone such as ``"Europe/Berlin"``.
        grace_seconds: maximum delay of a tick of this job.
        description: shown in the web UI and the command line.
    """

    every: float | timedelta | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    tz: str | None
    grace_seconds: float | None
    description: str


def make(
    name: str | None,
    cron: str | None,
    job: object,
    options: Mapping[str, Any] | None = None,
    *,
    defaults: tuple[str, float] = ("UTC", GRACE_SECONDS),
    source: str = CODE,
) -> Entry:
    """Build the entry of a job, or of a job's name, with ``cron`` or ``every``. Its name defaults to the job's name.

    Args:
        options: see `EntryOptions`.
        defaults: time zone and maximum delay of an entry without them.

    Raises:
        ConfigurationError: the job or an option is invalid.
    """
    declared = declared_of(job)
    called: Any = job if declared is None else declared.name
    name = called if name is None else name
    pushed = dict(options or {})
    every = pushed.pop("every", None)
    own: dict[str, Any] = {"tz": defaults[0], "grace_seconds": defaults[1]}
    own |= {key: value for key in _OWN if (value := pushed.pop(key, None)) is not None}
    try:
        # Values of extensions are checked when the configuration is known.
        checked = {key: value for key, value in pushed.items() if key != "extra"}
        check_options(checked, job_name=str(called), known_extra=INSTALLED_BY.keys() - FUNCTIONS)
        for key in _NOT_FOR_TICKS:
            _expect(key not in pushed, f"{key} is not supported for periodic jobs")
        expression = schedule_of(cron, every)
    except OffsiderError as error:
        raise ConfigurationError(f"periodic job {name!r}: {error}") from None
    return Entry(cast("str", name), expression, called, options=wire_options(pushed), source=source, **own)


def from_table(name: str, table: Mapping[str, Any], defaults: tuple[str, float]) -> Entry | None:
    """Build the entry of ``[periodic.NAME]`` in a file; None if ``enabled = false``.

    Raises:
        ConfigurationError: a key is missing or unknown, or a value is invalid.
    """
    known = ("cron", "job", "enabled", *EntryOptions.__annotations__)
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
    options = {key: value for key, value in table.items() if key not in ("cron", "job", "enabled")}
    return make(name, table.get("cron"), table["job"], options, source=FILE, defaults=defaults)


class PeriodicRegistry:
    """Periodic jobs by name.

    Args:
        tz: default time zone of entries.
        grace_seconds: default maximum delay of a tick.

    Attributes:
        defaults: ``tz`` and ``grace_seconds``.
    """

    def __init__(self, tz: str = "UTC", grace_seconds: float = GRACE_SECONDS) -> None:
        zone_of(tz)
        self.defaults = tz, grace_seconds
        self._entries: dict[str, Entry] = {}
        self._configs: WeakSet[Config] = WeakSet()

    @property
    def entries(self) -> Mapping[str, Entry]:
        return dict(self._entries)

    def add(self, entry: Entry) -> Entry:
        """Register a job, and return it. Raises ConfigurationError if its name is taken, or a worker runs."""
        if any(config.frozen for config in self._configs):
            raise ConfigurationError("the worker already runs: add periodic jobs with PeriodicJobs().add(…)")
        if entry.name in self._entries:
            raise _duplicate(entry.name)
        self._entries[entry.name] = entry
        return entry

    def read(self, config: Config) -> None:
        """Register the periodic jobs of the configuration file; again, for another configuration of the process."""
        for name, table in config.periodic.items():
            entry = from_table(name, table, self.defaults)
            known = self._entries.get(name)
            if entry is not None and (known is None or known.source == FILE):
                self._entries[name] = entry
            elif entry is not None:
                raise _duplicate(name)
        self._configs.add(config)


def _duplicate(name: str) -> ConfigurationError:
    return ConfigurationError(f"duplicate periodic job {name!r}: give one of them another name=")


def registry_of(config: Config) -> PeriodicRegistry:
    """Return the registry of the installed extension; an empty one without it."""
    extension: Any = config.extensions.get(EXTENSION)
    return PeriodicRegistry() if extension is None else cast("PeriodicRegistry", extension.registry)


def registered_in(server: Installation) -> Mapping[str, Entry]:
    """Return the entries registered in this process whose jobs go to this server."""
    return {
        name: entry
        for name, entry in registry_of(server.config).entries.items()
        if entry.server_of(server.config) == server.name
    }


def examine(config: Config, *, foreign: bool = False) -> Sequence[tuple[Entry, str]]:
    """Return the entries registered in this process, for any server, each with its error or an empty string.

    Args:
        config: the configuration with the registry and the extensions, which define job options.
        foreign: accept names of jobs that are not declared here.
    """
    return [(entry, _problem(entry, config, foreign=foreign)) for entry in registry_of(config).entries.values()]


def refuse_problem(entry: Entry, config: Config) -> None:
    """Raise ConfigurationError if an entry cannot work. Jobs may be declared in other programs."""
    problem = _problem(entry, config, foreign=True)
    if problem:
        raise ConfigurationError(f"periodic job {entry.name!r}: {problem}")


def _problem(entry: Entry, config: Config, *, foreign: bool) -> str:
    try:
        config.server_settings(entry.server_of(config))
        check_all_options(entry.options, config, job_name=entry.job)
        declared = registry.find(entry.job)
        declared.check(config)
        declared.bind(entry.args, entry.kwargs)
    except UnknownJob:
        if not foreign:
            return f"job {entry.job} is not declared here{suggest(entry.job, registry.names())}"
        return "a job that is not declared here takes no keyword arguments" if entry.kwargs else ""
    except OffsiderError as error:
        return str(error)
    return ""


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise ConfigurationError(message)


def _is_grace(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 366 * 86_400
