"""The table of settings: each has its default, its kind, its other names, and a comment for the reference.

Files, environment variables, options of the command line, messages and the pages of the reference follow from it. Key
names are unique across all sections, so that files may omit the section: Sidekiq's ``config/sidekiq.yml`` has none.

A comment that begins with ``#:`` is the text of the next setting in the reference (`scripts/write_reference.py`).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import UserDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

from offsider.config.app_version import COMMIT
from offsider.config.containers import Freezable
from offsider.config.routing import MAIN, NO_RULES, Rules, parse_all
from offsider.core.characteristics import Query
from offsider.core.compression import SMALL_BYTES
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.core.kinds import FLAG, SHARE, Kind, choice, converted, items_of, names, seconds, text, whole
from offsider.core.options import TRANSIENT, check_options, wire_options
from offsider.core.removed import setting_message
from offsider.core.series import RUN_SECONDS, Target
from offsider.core.suggestions import suggest
from offsider.storage.cluster import SCHEMES, plain_urls
from offsider.storage.redis import RedisSettings
from offsider.storage.working import DeadSetLimits

# The names of tables in files.
CAPSULES = "capsules"
JOBS = "jobs"
PERIODIC = "periodic"
SERVERS = "servers"
SHARDS = "shards"
ENVIRONMENTS = "environments"

#: First part of every environment variable of ours.
PREFIX = "OFFSIDER_"
_SHOWN_CHARACTERS = 300

T = TypeVar("T")


# ----------------------------------------------------------------------------------------------------
# Kinds of values that only settings have


def _check_processes(value: object) -> object:
    if value != "auto":
        if not isinstance(value, int):
            raise ValueError(f"give a number; auto is {_cores()} on this machine")
        return whole(0, _MAX_PROCESSES).check(value)
    return _cores()


def _cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def _check_address(value: object) -> str:
    found = _ADDRESS.fullmatch(str(value)) if type(value) in (int, str) else None
    if found is None:
        raise ValueError
    host, port = found["host"], found["port"]
    if port and int(port) > _LAST_PORT:
        raise ValueError(f"there is no port above {_LAST_PORT}")
    return f"127.0.0.1:{port}" if port and not host else found[0]


def _check_file(value: object) -> str:
    path = str(text().check(value))
    if not path or path == ":memory:":
        return path
    try:
        file = Path(path).expanduser().resolve()  # now: the process may change its folder
    except (RuntimeError, ValueError, OSError) as error:
        raise ValueError(f"it is no usable path: {error}") from error
    if file.is_dir():
        raise ValueError("it is a folder: add the name of a file in it")
    return str(file)


def _check_query(value: object) -> str:
    query = str(text().check(value)).strip()
    if query:
        Query.parse(query)
    return query


def _check_url(value: object) -> str:
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise ValueError
    if re.search(r"\s", value):
        raise ValueError("it contains a space or a line break; between the hosts of a Cluster is only a comma")
    plain = plain_urls(value)
    # redis-py uses database 0 if the path is not a number, so the path is checked here. Messages must not contain any
    # part of the URL: an unescaped "/" or "?" in a password moves the rest of it to another part.
    try:
        parts = [urlsplit(url) for url in plain]
        _ = [part.port for part in parts]
    except ValueError:
        raise ValueError(
            "its host and port cannot be read; in a password, write % / ? # @ : as %25 %2F %3F ..."
        ) from None
    first = parts[0]
    databases = parse_qs(first.query, keep_blank_values=True).get("db", [])
    if first.scheme != "unix" and first.path not in ("", "/"):
        databases = [*databases, first.path.removeprefix("/")]
    if value.startswith(SCHEMES) and any(database.strip("0") for database in databases):
        raise ValueError("a Cluster has no database but 0: leave the number out")
    if not all(re.fullmatch("[0-9]+", database) for database in databases):
        raise ValueError("the database, after the host or in ?db=, is a number, as in redis://localhost:6379/0")
    return value


_URL = re.compile(r"(rediss?(\+cluster)?|unix)://.+", re.DOTALL)
_MAX_PROCESSES = 1000
_ADDRESS = re.compile(r"(?:(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+):)?(?P<port>[0-9]{1,5}))?")
_LAST_PORT = 65_535
PROCESSES = Kind("a whole number >= 0, or auto (one per core)", _check_processes, converted(int))
QUEUES = Kind(
    'a list of queues, each "name", "name,weight" or [name, weight]',
    lambda value: tuple(map(str, parse_all(items_of(value)))),
    str.split,
)
URL = Kind(
    "a URL that begins with redis://, rediss:// (TLS), unix://, redis+cluster:// or rediss+cluster://",
    _check_url,
    secret=True,
)
ADDRESS = Kind("host:port, or a port alone for 127.0.0.1", _check_address)
FILE = Kind("the path of a file", _check_file)
QUERY = Kind("a query, as in routing rules", _check_query)
RULES = Kind(
    'a list of rules, each ["query", "queue"] or ["query", "queue", "server"]; JSON in the environment',
    Rules.read,
    converted(lambda value: json.loads(value or "[]")),
)


def _kind_of(default: object) -> Kind:
    """Return the kind of a setting that is any flag, string or list of strings."""
    return FLAG if isinstance(default, bool) else text() if isinstance(default, str) else names()


# ----------------------------------------------------------------------------------------------------
# Settings and sections


@dataclass(frozen=True)
class Setting:
    """One declared setting.

    Attributes:
        section: its section in files, also the attribute of `Config`.
        key: its name in the section.
        kind: its type.
        default: its default value.
        aliases: other names accepted in files.
        environment: variables of other programs that set it too, strongest first.
        option: the option of the command line, for the reference.
    """

    section: str
    key: str
    kind: Kind
    default: object
    aliases: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    option: str = ""

    @property
    def path(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables of the setting, strongest first."""
        return (f"{PREFIX}{self.section}_{self.key}".upper(), *self.environment)

    def checked(self, value: object, *, origin: str = "", path: str = "") -> Any:
        """Return ``value`` in its final form.

        Args:
            value: the value from its source.
            origin: the source, for the message.
            path: path of the setting, if it is in a named table.

        Raises:
            ConfigurationError: the value is invalid; the message names ``origin``, the key and the expected type.
        """
        try:
            return self.kind.check(value)
        except ValueError as error:
            where = f"{origin}: " if origin else ""
            given = "another value (not shown: it may be secret)" if self.kind.secret else _cut(repr(value))
            detail = f": {error}" if str(error) else ""
            message = f"{where}{path or self.path} expects {self.kind.expects}, got {given}{detail}"
            raise ConfigurationError(message) from None


def _cut(text: str) -> str:
    return f"{text[:_SHOWN_CHARACTERS]}..." if len(text) > _SHOWN_CHARACTERS else text


def setting(
    default: T, kind: Kind | None = None, *, aliases: tuple[str, ...] = (), env: tuple[str, ...] = (), cli: str = ""
) -> T:
    """Declare a field of a section. Without a kind, it is any value of the default's type."""
    kind = kind or _kind_of(default)
    return field(default=default, metadata={"kind": kind, "aliases": aliases, "environment": env, "option": cli})


def unknown_setting(path: str, hint: str, origin: str = "") -> ConfigurationError:
    """Return the error for a setting that does not exist, or was removed."""
    where = f"{origin}: " if origin else ""
    return ConfigurationError(where + (setting_message(path) or f"there is no setting {path}{hint}"))


class Section(Freezable):
    """A group of settings as attributes. Each assignment is validated; after `freeze` it raises an error."""

    section: ClassVar[str] = ""

    @classmethod
    def called(cls, name: str) -> Self:
        """Create the section of a named table; its messages contain the name."""
        made = cls()
        made.__dict__["section"] = cls.section.replace("NAME", name)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        self.assign(name, value)

    def assign(self, name: str, value: object, *, origin: str = "") -> None:
        """Set one setting.

        Args:
            name: its key.
            value: the new value.
            origin: the source of the value, for the message.

        Raises:
            ConfigurationError: the key is unknown, the value is invalid, or the section is frozen.
        """
        self.check_open(f"{self.section}.{name}")
        declared = declared_in(type(self))
        if name not in declared:
            raise unknown_setting(f"{self.section}.{name}", suggest(name, declared), origin)
        object.__setattr__(self, name, declared[name].checked(value, origin=origin, path=f"{self.section}.{name}"))

    def __repr__(self) -> str:
        shown = {
            key: "***" if item.kind.secret and getattr(self, key) else repr(getattr(self, key))
            for key, item in declared_in(type(self)).items()
        }
        return f"{type(self).__name__}({', '.join(f'{key}={value}' for key, value in shown.items())})"


@dataclass(repr=False)
class RedisSection(Section, RedisSettings):
    """Address and connection settings of the server, or of an additional one in a table `servers.NAME`."""

    section: ClassVar[str] = "redis"

    #: URL of the server: `redis://`, `rediss://` (TLS) or `unix://`, with optional user, password and database;
    #: `redis+cluster://` or `rediss+cluster://` with one or several `host:port` for a Cluster.
    url: str = setting(RedisSettings.url, URL, env=("REDIS_PROVIDER", "REDIS_URL", "VALKEY_URL"))
    #: Prefix of every key, used exactly as written, for example `resque:gitlab:`. On a Cluster it contains a hash
    #: tag; default there: `{offsider}:`.
    key_prefix: str = setting(RedisSettings.key_prefix)
    #: Major version of Sidekiq whose format is written. All formats are read.
    wire_version: int = setting(RedisSettings.wire_version, whole(6, 8))
    #: Timeout of connecting, and of a reply from the server.
    socket_timeout_seconds: float = setting(RedisSettings.socket_timeout_seconds, seconds(above=True))
    #: Sentinels as `host:port`. They return the master's address; the host of `url` is not used.
    sentinels: tuple[str, ...] = setting(RedisSettings.sentinels, names("a list of host:port"))
    #: Name of the master, required with `sentinels`.
    sentinel_name: str = setting(RedisSettings.sentinel_name)
    #: Password of the Sentinels themselves.
    sentinel_password: str = setting(RedisSettings.sentinel_password, text(secret=True))
    #: ACL user, if `url` contains none.
    username: str = setting(RedisSettings.username)
    #: Password, if `url` contains none.
    password: str = setting(RedisSettings.password, text(secret=True))
    #: File of trusted CA certificates, instead of the system's.
    tls_ca_file: str = setting(RedisSettings.tls_ca_file)
    #: File of the client certificate.
    tls_cert_file: str = setting(RedisSettings.tls_cert_file)
    #: File of the client certificate's private key.
    tls_key_file: str = setting(RedisSettings.tls_key_file)
    #: Verify the server's certificate and host name.
    tls_verify: bool = setting(RedisSettings.tls_verify)
    #: Connections per process for pushing jobs and for the inspector. The capsules of a worker have their own pools.
    client_pool_size: int = setting(5, whole(1))

    @classmethod
    def of_server(cls, name: str) -> RedisSection:
        """Create the section of an additional server, which has no URL yet."""
        made = cls()
        made.__dict__.update(section=f"{SERVERS}.{name}", url="")
        return made


@dataclass(repr=False)
class CapsuleSection(Section):
    """A separate group of worker threads with its own queues."""

    section: ClassVar[str] = "capsules.NAME"

    #: Number of threads that run jobs.
    concurrency: int = setting(5, whole(1, 1000))
    #: Maximum number of `async def` jobs that run at the same time. They run beside the `concurrency` threads.
    async_concurrency: int = setting(100, whole(1, 10_000))
    #: Queues to serve: `"name"`, `"name,weight"` or `["name", weight]`; `"*"` means every existing queue. Empty:
    #: `default`, and for the capsule `default` the queues of the declared jobs that no other capsule and no shard
    #: serves, in random order.
    queues: Sequence[str] = setting((), QUEUES)
    #: Order of the queues. `strict`: a queue is served only if those before it are empty. `weighted`: drawn at
    #: random; a queue with weight 10 is first ten times as often as one with weight 1. `random`: the same with equal
    #: weights. `auto` chooses: `strict` without weights, `random` if all weights are 1, otherwise `weighted`. Beyond
    #: 48 queues, strict order may be late by a second.
    mode: str = setting("auto", choice("auto", "strict", "weighted", "random"))
    #: Run each job in a process of its own, as with `@job(isolated=True)`. Not for `async def` jobs.
    isolated: bool = setting(False, FLAG)


@dataclass(repr=False)
class WorkerSection(CapsuleSection):
    """The worker process. Its concurrency, queues and mode apply to the capsule `default`."""

    section: ClassVar[str] = "worker"

    #: Number of threads that run jobs. If nothing else sets it, `RAILS_MAX_THREADS` does.
    concurrency: int = setting(5, whole(1, 1000), cli="-c, --concurrency")
    queues: Sequence[str] = setting((), QUEUES, cli="-q, --queue")
    #: How long running jobs may continue after a stop signal. Then they are interrupted and requeued.
    timeout_seconds: float = setting(25.0, seconds(), aliases=("timeout",), cli="-t, --timeout")
    #: The application: modules, `.py` files or folders that declare the jobs.
    require: Sequence[str] = setting(
        (), names("a module, a .py file or a folder, or a list of them"), cli="-r, --require"
    )
    #: Name of the environment: selects the table below `environments` in the file; jobs can read it.
    environment: str = setting(
        "development",
        text(r"[\w.-]+", "a word such as production"),
        env=("OFFSIDER_ENV", "APP_ENV", "RAILS_ENV", "RACK_ENV"),
        cli="-e, --environment",
    )
    #: Tag in the process title and in the web UI. Empty: the name of the current folder.
    tag: str = setting("", cli="-g, --tag")
    #: How jobs are claimed. `reliable` keeps each job in a private list until it is acknowledged. `basic` is a plain
    #: BRPOP, which loses running jobs if the process dies. `package.module:Class` is your own fetcher.
    fetcher: str = setting(
        "reliable", text(r"reliable|basic|[A-Za-z_][\w.]*[.:]\w+", "reliable, basic or the dotted path of a class")
    )
    #: When finished jobs are acknowledged. `merged`: together, within 20 ms; jobs with effects before their thread
    #: starts the next one, except members of a batch shorter than a millisecond. `each`: every job before its thread
    #: starts the next one.
    ack: str = setting("merged", choice("merged", "each"))
    #: Expiry of the heartbeat that other workers check. Without a death report from its parent, a process is
    #: declared dead after 4/3 of this time or a little later.
    liveness_seconds: float = setting(45.0, seconds(minimum=1.0))
    #: Move a job to the dead set after it has crashed this many processes (the last one while running alone). 0
    #: disables the check.
    max_strikes: int = setting(3, whole(-1))
    #: Days that a stranded job waits before it moves to the dead set. 0: such a job is not handed over either; it
    #: fails and is retried.
    stranded_days: int = setting(30, whole(0))
    #: Maximum number of retries of a job with `retry = true`.
    max_retries: int = setting(25, whole(0))
    #: Maximum size of the dead set (exclusive); the oldest jobs are deleted.
    dead_max_jobs: int = setting(10_000, whole(1))
    #: Age at which jobs are deleted from the dead set (180 days).
    dead_timeout_seconds: float = setting(15_552_000.0, seconds(above=True), aliases=("dead_timeout_in_seconds",))
    #: How many days a quarantined job can be restored.
    quarantine_days: int = setting(30, whole(1))
    #: How often an iteration stores its cursor; a killed run repeats the elements since.
    flush_seconds: float = setting(5.0, seconds(above=True))
    #: Maximum number of finished runs that the flight recorder keeps of each process and second. All processes share
    #: 16 MB for the latest 700,000 runs. 0: none.
    recorded_runs_per_second: int = setting(1000, whole(0))
    #: Restart the worker when a source or configuration file changes. For development.
    reload: bool = setting(False, cli="--reload")
    #: Address of the HTTP endpoints `/live`, `/ready` and `/metrics`, as `host:port`; a port alone binds to
    #: 127.0.0.1. Empty: no endpoints.
    health: str = setting("", ADDRESS, aliases=("health_check",), cli="--health")
    #: The shard to serve: the name of a table below `shards`, whose queues, concurrency, processes, mode and server
    #: override those of `worker`. Only `offsider worker` reads the variables, so that all programs can share one
    #: environment.
    shard: str = setting("", cli="--shard")
    #: Number of worker processes, each with all capsules, that the parent restarts when they exit. `auto`: one per
    #: core. 0: one process; the parent exits with it.
    processes: int = setting(0, PROCESSES, env=("SIDEKIQ_COUNT",), cli="-p, --processes")
    #: Replace a process that uses more memory (RSS, in MB) than this for a minute. Its jobs have `timeout_seconds`
    #: to finish. Without `processes` the worker exits. 0: never.
    memory_max_mb: int = setting(0, whole(0), env=("SIDEKIQ_MAXMEM_MB",))
    #: Replace the process of isolated jobs after this number of jobs. 0: never.
    max_jobs_per_child: int = setting(0, whole(0))
    #: Replace the process of isolated jobs if it uses more memory (RSS, in MB) than this after a job. 0: never.
    memory_per_child_mb: int = setting(0, whole(0))

    @property
    def dead_set_limits(self) -> DeadSetLimits:
        """The limits of the dead set, for its scripts."""
        return DeadSetLimits(self.dead_max_jobs, self.dead_timeout_seconds)


@dataclass(repr=False)
class ShardSection(Section):
    """A group of queues for the workers that are started with its name."""

    section: ClassVar[str] = "shards.NAME"

    #: Queues to serve, as for a capsule. Empty: those that `select` finds.
    queues: Sequence[str] = setting((), QUEUES)
    #: A query as in routing rules, instead of `queues`: the shard serves the queues to which the matching jobs are
    #: routed.
    select: str = setting("", QUERY)
    #: Number of threads that run jobs in each process. 0: the value of `worker`.
    concurrency: int = setting(0, whole(0, 1000))
    #: Number of worker processes. 0: the value of `worker`.
    processes: int = setting(0, PROCESSES)
    #: Server of its jobs; `main` is the server of `redis`.
    server: str = setting(MAIN, text(r".+", "the name of a server"))


@dataclass(repr=False)
class ClientSection(Section):
    """Pushing jobs."""

    section: ClassVar[str] = "client"

    #: What happens to arguments that JSON cannot represent exactly: an error, a warning, or nothing.
    strict_args: str = setting("raise", choice("raise", "warn", "off"))
    #: Version of the application, stored in jobs and processes: a release such as `2.14`. `git`: the commit that is
    #: checked out in the current folder, if any. Empty: no version.
    app_version: str = setting(COMMIT)
    #: Maximum duration of a push outside of jobs: waiting for a free connection, connecting and the reply together,
    #: also for each batch of a bulk push. On an event loop, a push may wait as long again for those before it, and
    #: those that wait are sent together. Jobs have `redis.socket_timeout_seconds`. `wait_replicas` may take a second
    #: more.
    push_timeout_seconds: float = setting(1.0, seconds(above=True))
    #: What happens to large payloads. `track`: log a warning and emit the event `large_payload`. `compress`: also
    #: compress the stored arguments of jobs declared in Python, once all live workers support it. `off`: neither.
    #: `payload_limit_bytes` applies in all three cases.
    large_payloads: str = setting("track", choice("track", "compress", "off"))
    #: Stored size above which a push logs a warning.
    large_payload_bytes: int = setting(1_000_000, whole(SMALL_BYTES))
    #: Maximum stored size of a payload; a larger push raises an error, except for jobs with `big_payload`. 0: no
    #: limit.
    payload_limit_bytes: int = setting(0, whole(SMALL_BYTES, or_zero=True))
    #: File for pushes that the server cannot take during an outage; they are stored when it replies. `:memory:` keeps
    #: them in memory, where the end of the process loses them. Empty: such a push raises an error.
    spool: str = setting("", FILE)
    #: Maximum number of jobs in the file; further pushes raise an error.
    spool_max_jobs: int = setting(100_000, whole(1))


@dataclass(repr=False)
class RoutingSection(Section):
    """Rules that choose the queue of a job by its characteristics."""

    section: ClassVar[str] = "routing"

    #: Rules that choose the queue of a job: the first rule whose query matches overrides the queue that the job
    #: declares. An empty queue means the queue named after the job. Rules apply at push time and do not move stored
    #: jobs; all programs that push should have the same rules.
    rules: Rules = setting(NO_RULES, RULES, aliases=("routing_rules",))  # noqa: RUF009  # rules never change


@dataclass(repr=False)
class SloSection(Section):
    """Targets for queue latency by urgency, and the share of runs that meet all targets."""

    section: ClassVar[str] = "slo"

    #: Queue latency target of urgency high: a job starts within this time after it was due. 0: no target.
    high_queue_seconds: float = setting(10.0, seconds())
    #: Queue latency target of urgency low, the default urgency. 0: no target.
    low_queue_seconds: float = setting(60.0, seconds())
    #: Target share of runs that succeed and meet both targets. The remaining share is the error budget.
    apdex_objective: float = setting(0.995, SHARE)

    def target(self, urgency: str) -> Target:
        """Return the targets of an urgency."""
        queue = {"high": self.high_queue_seconds, "low": self.low_queue_seconds}.get(urgency) or math.inf
        return Target(queue, RUN_SECONDS[urgency])


_HTTP_URL = (r"(?i:https?)://\S+|", "an address that begins with http:// or https://")


@dataclass(repr=False)
class AlertsSection(Section):
    """Alerts: a worker posts new, changed and ended findings to a webhook."""

    section: ClassVar[str] = "alerts"

    #: Address that gets the findings as JSON, by POST; empty for no alerts.
    url: str = setting("", text(*_HTTP_URL, secret=True))
    #: Post a text for Slack, or for a program with the same webhooks, such as Mattermost.
    slack: bool = setting(False)
    #: Address of the web UI, for links in alerts.
    web_url: str = setting("", text(*_HTTP_URL))


@dataclass(repr=False)
class LogSection(Section):
    """The log of the worker's command line."""

    section: ClassVar[str] = "log"

    #: `text` is for people, with colors on a terminal; `json` is one flat object per line with GitLab's field names
    #: and all timings.
    format: str = setting("text", choice("text", "json"))
    #: Minimum level of log lines.
    level: str = setting(
        "info",
        choice("debug", "info", "warning", "error", "critical", synonyms={"warn": "warning", "fatal": "critical"}),
        cli="-v, --verbose",
    )
    #: Log the lines start, done and fail of each job.
    job_log: bool = setting(True)
    #: Log the first 1,000 characters of a job's arguments, in `json` lines and in the line of a failed job. Sentry
    #: receives arguments only with this setting. Arguments may contain secrets.
    arguments: bool = setting(False)


_JOBS_WHERE = "jobs (default options)"
_SIDEKIQS = MappingProxyType({"retry": True, "queue": "default"})
#: Options that are not stored, and whose defaults are read.
_WITH_DEFAULTS = frozenset({"codec", "extra"})


class JobDefaults(Freezable, UserDict[str, Any]):
    """Default options of all jobs. Initially ``retry = true`` and ``queue = "default"``, as in Sidekiq."""

    _stored: Mapping[str, Any] | None = None

    def __init__(self, options: Mapping[str, Any] = _SIDEKIQS) -> None:
        super().__init__(options)

    @property
    def stored(self) -> Mapping[str, Any]:
        """The defaults in payload format; the same object until a default changes."""
        if self._stored is None:
            self._stored = MappingProxyType(wire_options(self.data))
        return self._stored

    def __setitem__(self, key: str, value: Any) -> None:
        self.assign(key, value)

    def __ior__(self, other: Any) -> Self:  # type: ignore[override, misc]  # whatever `update` accepts
        self.update(other)
        return self

    def assign(self, key: str, value: Any, *, origin: str = "") -> None:
        """Set one default.

        Raises:
            ConfigurationError: the value is invalid, or the worker has been launched. Unknown keys are found by
                `check`, at the freeze and at a push, because extensions may add options.
        """
        self.check_open("config.jobs")
        where = f"{origin}: {_JOBS_WHERE}" if origin else _JOBS_WHERE
        if key in TRANSIENT and key not in _WITH_DEFAULTS:
            raise ConfigurationError(
                f"{where}: {key!r} has no default for all jobs; give it to @job(...) or using(...)"
            )
        try:
            check_options({key: value}, job_name=where, known_extra=[key])
        except InvalidOptions as error:
            raise ConfigurationError(str(error)) from None
        self.data[key] = value
        self._stored = None

    def check(self, known_extra: Collection[str]) -> None:
        """Raise ConfigurationError if an option is unknown or two of them conflict."""
        try:
            self.check_for_push(known_extra)
        except InvalidOptions as error:
            raise ConfigurationError(str(error)) from None

    def check_for_push(self, known_extra: Collection[str]) -> None:
        """Do the same with InvalidOptions, for processes that only push and therefore never freeze."""
        check_options(self.data, job_name=_JOBS_WHERE, known_extra=known_extra)

    def __delitem__(self, key: str) -> None:
        self.check_open("config.jobs")
        del self.data[key]
        self._stored = None


SECTIONS: tuple[type[Section], ...] = (
    RedisSection,
    WorkerSection,
    ClientSection,
    RoutingSection,
    SloSection,
    AlertsSection,
    LogSection,
)

#: The tables of a file.
GROUPS = (*(section.section for section in SECTIONS), JOBS, CAPSULES, SERVERS, SHARDS, PERIODIC)


_declared: dict[type[Section], Mapping[str, Setting]] = {}


def declared_in(section: type[Section]) -> Mapping[str, Setting]:
    """Return the settings of a section by key."""
    if section not in _declared:
        _declared[section] = {
            item.name: Setting(section=section.section, key=item.name, default=item.default, **item.metadata)
            for item in fields(cast("Any", section))
        }
    return _declared[section]


@cache
def every_setting() -> tuple[Setting, ...]:
    """Return the settings of all sections, in the order of the reference."""
    return tuple(item for section in SECTIONS for item in declared_in(section).values())


@cache
def by_name() -> Mapping[str, Setting]:
    """Return the settings by ``section.key`` and by key, including aliases."""
    found: dict[str, Setting] = {}
    for item in every_setting():
        for key in (item.key, *item.aliases):
            found.setdefault(key, item)  # `url` is that of Redis
            found[f"{item.section}.{key}"] = item
    return found
