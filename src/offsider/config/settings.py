"""Declarations of all settings: default, type, names in files and in the environment, help.

The reference pages, the messages about invalid values, the environment variables and the options of the command line
are generated from these declarations. Key names are unique across all sections, so that files may omit the section:
Sidekiq's ``config/sidekiq.yml`` has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, cast

from offsider.config import validators
from offsider.config.app_version import COMMIT
from offsider.config.containers import frozen_error
from offsider.config.routing import MAIN, NO_RULES, Rules
from offsider.config.validators import Kind
from offsider.core.compression import SMALL_BYTES
from offsider.core.errors import ConfigurationError
from offsider.core.removed import setting_message
from offsider.core.series import RUN_SECONDS, Target
from offsider.core.suggestions import suggest
from offsider.storage.redis import RedisSettings
from offsider.storage.working import DeadSetLimits

# The names of tables in files.
CAPSULES = "capsules"
JOBS = "jobs"
PERIODIC = "periodic"
SERVERS = "servers"
SHARDS = "shards"
ENVIRONMENTS = "environments"
SECTION_NAMES = ("redis", "worker", "client", "routing", "slo", "log")
GROUPS = (*SECTION_NAMES, JOBS, CAPSULES, SERVERS, SHARDS, PERIODIC)

#: First part of every environment variable of ours.
PREFIX = "OFFSIDER_"
_SHOWN_CHARACTERS = 300

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """One declared setting.

    Attributes:
        section: its section in files, also the attribute of `Config`.
        key: its name in the section.
        kind: its type.
        default: its default value.
        help: its description, for the reference.
        aliases: other names accepted in files.
        environment: variables of other programs that set it too, strongest first.
        option: the option of the command line, for the reference.
    """

    section: str
    key: str
    kind: Kind
    default: object
    help: str
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
    default: T,
    kind: Kind,
    *,
    help: str,  # noqa: A002  # the usual word
    aliases: tuple[str, ...] = (),
    env: tuple[str, ...] = (),
    cli: str = "",
) -> T:
    """Declare a field of a section."""
    metadata = {"kind": kind, "help": help, "aliases": aliases, "environment": env, "option": cli}
    return field(default=default, metadata=metadata)


def unknown_setting(path: str, hint: str, origin: str = "") -> ConfigurationError:
    """Return the error for a setting that does not exist, or was removed."""
    where = f"{origin}: " if origin else ""
    return ConfigurationError(where + (setting_message(path) or f"there is no setting {path}{hint}"))


class Section:
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
        if self.__dict__.get("_frozen"):
            raise frozen_error(f"{self.section}.{name}")
        declared = declared_in(type(self))
        if name not in declared:
            raise unknown_setting(f"{self.section}.{name}", suggest(name, declared), origin)
        object.__setattr__(self, name, declared[name].checked(value, origin=origin, path=f"{self.section}.{name}"))

    def freeze(self) -> None:
        self.__dict__["_frozen"] = True

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

    url: str = setting(
        RedisSettings.url,
        validators.URL,
        help="URL of the server: `redis://`, `rediss://` (TLS) or `unix://`, with optional user, password and "
        "database; `redis+cluster://` or `rediss+cluster://` with one or several `host:port` for a Cluster.",
        env=("REDIS_PROVIDER", "REDIS_URL", "VALKEY_URL"),
    )
    key_prefix: str = setting(
        RedisSettings.key_prefix,
        validators.text(),
        help="Prefix of every key, used exactly as written, for example `resque:gitlab:`. On a Cluster it "
        "contains a hash tag; default there: `{offsider}:`.",
    )
    wire_version: int = setting(
        RedisSettings.wire_version,
        validators.number_of(6, 7, 8),
        help="Major version of Sidekiq whose format is written. All formats are read.",
    )
    socket_timeout_seconds: float = setting(
        RedisSettings.socket_timeout_seconds,
        validators.seconds(above=True),
        help="Timeout of connecting, and of a reply from the server.",
    )
    sentinels: tuple[str, ...] = setting(
        RedisSettings.sentinels,
        validators.names("a list of host:port"),
        help="Sentinels as `host:port`. They return the master's address; the host of `url` is not used.",
    )
    sentinel_name: str = setting(
        RedisSettings.sentinel_name, validators.text(), help="Name of the master, required with `sentinels`."
    )
    sentinel_password: str = setting(
        RedisSettings.sentinel_password, validators.text(secret=True), help="Password of the Sentinels themselves."
    )
    username: str = setting(RedisSettings.username, validators.text(), help="ACL user, if `url` contains none.")
    password: str = setting(
        RedisSettings.password, validators.text(secret=True), help="Password, if `url` contains none."
    )
    tls_ca_file: str = setting(
        RedisSettings.tls_ca_file,
        validators.text(),
        help="File of trusted CA certificates, instead of the system's.",
    )
    tls_cert_file: str = setting(RedisSettings.tls_cert_file, validators.text(), help="File of the client certificate.")
    tls_key_file: str = setting(
        RedisSettings.tls_key_file, validators.text(), help="File of the client certificate's private key."
    )
    tls_verify: bool = setting(
        RedisSettings.tls_verify, validators.FLAG, help="Verify the server's certificate and host name."
    )
    client_pool_size: int = setting(
        5,
        validators.whole(1),
        help="Connections per process for pushing jobs and for the inspector, and the same number again for each event"
        " loop that pushes. The capsules of a worker have their own pools.",
    )

    @classmethod
    def of_server(cls, name: str) -> RedisSection:
        """Create the section of an additional server, which has no URL yet."""
        made = cls()
        made.__dict__.update(section=f"{SERVERS}.{name}", url="")
        return made


_QUEUES_HELP = (
    'Queues to serve: `"name"`, `"name,weight"` or `["name", weight]`; `"*"` means every existing queue. '
    "Empty: `default`, and for the capsule `default` the queues of the declared jobs that no other capsule and no "
    "shard serves, in random order."
)


@dataclass(repr=False)
class CapsuleSection(Section):
    """A separate group of worker threads with its own queues."""

    section: ClassVar[str] = "capsules.NAME"

    concurrency: int = setting(5, validators.whole(1, 1000), help="Number of threads that run jobs.")
    async_concurrency: int = setting(
        100,
        validators.whole(0, 10_000),
        help="Number of `async def` jobs that run at the same time in addition to the `concurrency` threads. Beyond "
        "this number, each `async def` job takes one of the `concurrency` seats. 0: every one does.",
    )
    queues: Sequence[str] = setting(
        (),
        validators.QUEUES,
        help=_QUEUES_HELP,
    )
    mode: str = setting(
        "auto",
        validators.choice("auto", "strict", "weighted", "random"),
        help="Order of the queues. `strict`: a queue is served only if those before it are empty. `weighted`: drawn at "
        "random; a queue with weight 10 is first ten times as often as one with weight 1. `random`: the same with "
        "equal weights. `auto` chooses: `strict` without weights, `random` if all weights are 1, otherwise "
        "`weighted`.",
    )


@dataclass(repr=False)
class WorkerSection(CapsuleSection):
    """The worker process. Its concurrency, queues and mode apply to the capsule `default`."""

    section: ClassVar[str] = "worker"

    concurrency: int = setting(
        5,
        validators.whole(1, 1000),
        help="Number of threads that run jobs. If nothing else sets it, `RAILS_MAX_THREADS` does.",
        cli="-c, --concurrency",
    )
    queues: Sequence[str] = setting((), validators.QUEUES, help=_QUEUES_HELP, cli="-q, --queue")
    timeout_seconds: float = setting(
        25.0,
        validators.seconds(),
        help="How long running jobs may continue after a stop signal. Then they are interrupted and requeued.",
        aliases=("timeout",),
        cli="-t, --timeout",
    )
    require: Sequence[str] = setting(
        (),
        validators.names("a module, a .py file or a folder, or a list of them"),
        help="The application: modules, `.py` files or folders that declare the jobs.",
        cli="-r, --require",
    )
    environment: str = setting(
        "development",
        validators.text(r"[\w.-]+", "a word such as production"),
        help="Name of the environment: selects the table below `environments` in the file; jobs can read it.",
        env=("OFFSIDER_ENV", "APP_ENV", "RAILS_ENV", "RACK_ENV"),
        cli="-e, --environment",
    )
    tag: str = setting(
        "",
        validators.text(),
        help="Tag in the process title and in the web UI. Empty: the name of the current folder.",
        cli="-g, --tag",
    )
    fetcher: str = setting(
        "reliable",
        validators.text(r"reliable|basic|[A-Za-z_][\w.]*[.:]\w+", "reliable, basic or the dotted path of a class"),
        help="How jobs are claimed. `reliable` keeps each job in a private list until it is acknowledged. `basic` is a"
        " plain BRPOP, which loses running jobs if the process dies. `package.module:Class` is your own fetcher.",
    )
    ack: str = setting(
        "merged",
        validators.choice("merged", "each"),
        help="When finished jobs are acknowledged. `merged`: jobs shorter than a millisecond are acknowledged "
        "together, within 20 ms; longer jobs immediately. `each`: every job before its thread starts the next "
        "one.",
    )
    liveness_seconds: float = setting(
        45.0,
        validators.seconds(minimum=1.0),
        help="Expiry of the heartbeat that other workers check. Without a death report from its parent, a process is "
        "declared dead after 4/3 of this time or a little later.",
    )
    max_strikes: int = setting(
        3,
        validators.whole(-1),
        help="Move a job to the dead set after it has crashed this many processes (the last one while running alone). "
        "0 disables the check.",
    )
    stranded_days: int = setting(
        30,
        validators.whole(0),
        help="Days that a stranded job waits before it moves to the dead set. 0: such a job is not handed over either; "
        "it fails and is retried.",
    )
    max_retries: int = setting(25, validators.whole(0), help="Maximum number of retries of a job with `retry = true`.")
    dead_max_jobs: int = setting(
        10_000, validators.whole(1), help="Maximum size of the dead set (exclusive); the oldest jobs are deleted."
    )
    dead_timeout_seconds: float = setting(
        15_552_000.0,
        validators.seconds(above=True),
        help="Age at which jobs are deleted from the dead set (180 days).",
        aliases=("dead_timeout_in_seconds",),
    )
    quarantine_days: int = setting(30, validators.whole(1), help="How many days a quarantined job can be restored.")
    reload: bool = setting(
        False,
        validators.FLAG,
        help="Restart the worker when a source file changes. For development.",
        cli="--reload",
    )
    health: str = setting(
        "",
        validators.ADDRESS,
        help="Address of the HTTP endpoints `/live`, `/ready` and `/metrics`, as `host:port`; a port alone binds to "
        "127.0.0.1. Empty: no endpoints.",
        aliases=("health_check",),
        cli="--health",
    )
    shard: str = setting(
        "",
        validators.text(),
        help="The shard to serve: the name of a table below `shards`, whose queues, concurrency, processes, mode and "
        "server override those of `worker`. Only `offsider worker` reads the variables, so that all programs can "
        "share one environment.",
        cli="--shard",
    )
    processes: int = setting(
        0,
        validators.processes(),
        help="Number of worker processes, each with all capsules, that the parent restarts when they exit. `auto`: one "
        "per core. 0: one process; the parent exits with it.",
        env=("SIDEKIQ_COUNT",),
        cli="-p, --processes",
    )
    memory_max_mb: int = setting(
        0,
        validators.whole(0),
        help="Replace a process that uses more memory (RSS, in MB) than this for a minute. Its jobs have "
        "`timeout_seconds` to finish. Without `processes` the worker exits. 0: never.",
        env=("SIDEKIQ_MAXMEM_MB",),
    )

    @property
    def dead_set_limits(self) -> DeadSetLimits:
        """The limits of the dead set, for its scripts."""
        return DeadSetLimits(self.dead_max_jobs, self.dead_timeout_seconds)


@dataclass(repr=False)
class ShardSection(Section):
    """A group of queues for the workers that are started with its name."""

    section: ClassVar[str] = "shards.NAME"

    queues: Sequence[str] = setting(
        (), validators.QUEUES, help="Queues to serve, as for a capsule. Empty: those that `select` finds."
    )
    select: str = setting(
        "",
        validators.QUERY,
        help="A query as in routing rules, instead of `queues`: the shard serves the queues to which the matching jobs"
        " are routed.",
    )
    concurrency: int = setting(
        0,
        validators.whole(0, 1000),
        help="Number of threads that run jobs in each process. 0: the value of `worker`.",
    )
    processes: int = setting(0, validators.processes(), help="Number of worker processes. 0: the value of `worker`.")
    server: str = setting(
        MAIN,
        validators.text(r".+", "the name of a server"),
        help="Server of its jobs; `main` is the server of `redis`.",
    )


@dataclass(repr=False)
class ClientSection(Section):
    """Pushing jobs."""

    section: ClassVar[str] = "client"

    strict_args: str = setting(
        "raise",
        validators.choice("raise", "warn", "off"),
        help="What happens to arguments that JSON cannot represent exactly: an error, a warning, or nothing.",
    )
    app_version: str = setting(
        COMMIT,
        validators.text(),
        help="Version of the application, stored in jobs and processes: a release such as `2.14`. `git`: the commit "
        "that is checked out in the current folder, if any. Empty: no version.",
    )
    push_timeout_seconds: float = setting(
        1.0,
        validators.seconds(above=True),
        help="Maximum duration of a push outside of jobs: waiting for a free connection, connecting and the reply "
        "together, also for each batch of a bulk push. On an event loop, waiting for a connection does not count while "
        "the server answers others. Jobs have `redis.socket_timeout_seconds`. `wait_replicas` may take a second more.",
    )
    large_payloads: str = setting(
        "track",
        validators.choice("track", "compress", "off"),
        help="What happens to large payloads. `track`: log a warning and emit the event `large_payload`. `compress`: "
        "also compress the stored arguments of jobs declared in Python, once all live workers support it. `off`: "
        "neither. `payload_limit_bytes` applies in all three cases.",
    )
    large_payload_bytes: int = setting(
        1_000_000,
        validators.whole(SMALL_BYTES),
        help="Stored size above which a push logs a warning.",
    )
    payload_limit_bytes: int = setting(
        0,
        validators.whole(SMALL_BYTES, or_zero=True),
        help="Maximum stored size of a payload; a larger push raises an error, except for jobs with `big_payload`. 0: "
        "no limit.",
    )


@dataclass(repr=False)
class RoutingSection(Section):
    """Rules that choose the queue of a job by its characteristics."""

    section: ClassVar[str] = "routing"

    rules: Rules = setting(  # noqa: RUF009  # rules never change
        NO_RULES,
        validators.RULES,
        help="Rules that choose the queue of a job: the first rule whose query matches overrides the queue that the "
        "job declares. An empty queue means the queue named after the job. Rules apply at push time and do not move "
        "stored jobs; all programs that push should have the same rules.",
        aliases=("routing_rules",),
    )


@dataclass(repr=False)
class SloSection(Section):
    """Targets for queue latency by urgency, and the share of runs that meet all targets."""

    section: ClassVar[str] = "slo"

    high_queue_seconds: float = setting(
        10.0,
        validators.seconds(),
        help="Queue latency target of urgency high: a job starts within this time after it was due. 0: no target.",
    )
    low_queue_seconds: float = setting(
        60.0, validators.seconds(), help="Queue latency target of urgency low, the default urgency. 0: no target."
    )
    apdex_objective: float = setting(
        0.995,
        validators.share(),
        help="Target share of runs that succeed and meet both targets. The remaining share is the error budget.",
    )

    def target(self, urgency: str) -> Target:
        """Return the targets of an urgency."""
        queue = {"high": self.high_queue_seconds, "low": self.low_queue_seconds}.get(urgency) or math.inf
        return Target(queue, RUN_SECONDS[urgency])


@dataclass(repr=False)
class LogSection(Section):
    """The log of the worker's command line."""

    section: ClassVar[str] = "log"

    format: str = setting(
        "text",
        validators.log_format("text", "json"),
        help="`text` is for people, with colors on a terminal; `json` is one flat object per line with GitLab's field "
        "names and all timings.",
    )
    level: str = setting(
        "info",
        validators.choice(
            "debug", "info", "warning", "error", "critical", synonyms={"warn": "warning", "fatal": "critical"}
        ),
        help="Minimum level of log lines.",
        cli="-v, --verbose",
    )
    job_log: bool = setting(True, validators.FLAG, help="Log the lines start, done and fail of each job.")
    arguments: bool = setting(
        False,
        validators.FLAG,
        help="Log the first 1,000 characters of a job's arguments, in `json` lines and in the line of a failed "
        "job. Sentry receives arguments only with this setting. Arguments may contain secrets.",
    )


SECTIONS: tuple[type[Section], ...] = (
    RedisSection,
    WorkerSection,
    ClientSection,
    RoutingSection,
    SloSection,
    LogSection,
)


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
            found[key] = found[f"{item.section}.{key}"] = item
    return found
