"""Every setting, declared once: its default, what it accepts, its names in files and in the environment, its help.

The reference pages, the messages about wrong values, the environment variables and the options of the command line
are all made from these declarations. Key names are unique over all sections, so that files and variables may leave
the section out (``wire_version = 6``, ``OFFSIDER_WIRE_VERSION``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, cast

from offsider.core.compression import SMALL_BYTES
from offsider.core.errors import ConfigurationError
from offsider.core.objectives import Target
from offsider.storage.redis import RedisSettings
from offsider.wiring import kinds
from offsider.wiring.app_version import COMMIT
from offsider.wiring.frozen import frozen_error
from offsider.wiring.kinds import Kind
from offsider.wiring.nearest import suggest
from offsider.wiring.routing import MAIN, NO_RULES, Rules

# What a file is made of.
CAPSULES = "capsules"
JOBS = "jobs"
PERIODIC = "periodic"
SERVERS = "servers"
SHARDS = "shards"
ENVIRONMENTS = "environments"
SECTION_NAMES = ("redis", "worker", "client", "routing", "slo", "log")
GROUPS = (*SECTION_NAMES, JOBS, CAPSULES, SERVERS, SHARDS, PERIODIC)

_SHOWN_CHARACTERS = 300

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """One declared setting.

    Attributes:
        section: its section in files; the attribute of Config.
        key: its name there.
        kind: what it accepts.
        default: its value when nobody sets it.
        help: what it does, for the reference.
        aliases: other names accepted in files.
        environment: further environment variables that feed it, strongest first.
        option: how the command line calls it, for the reference.
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
        """The environment variables that set it, strongest first."""
        key = self.key.upper()
        return (f"OFFSIDER_{self.section.upper()}_{key}", f"OFFSIDER_{key}", *self.environment)

    def checked(self, value: object, *, origin: str = "", path: str = "") -> Any:
        """``value`` in its final form.

        Args:
            value: as found.
            origin: where it was found.
            path: of the setting in a table that has a name of its own.

        Raises:
            ConfigurationError: it is not acceptable; the message names ``origin``, the key and what is expected.
        """
        try:
            return self.kind.check(value)
        except ValueError as error:
            where = f"{origin}: " if origin else ""
            given = f"a {type(value).__name__} that is none" if self.kind.secret else _cut(repr(value))
            detail = f": {error}" if str(error) else ""
            message = f"{where}{path or self.path} expects {self.kind.expects}, got {given}{detail}"
            raise ConfigurationError(message) from None


def _cut(text: str) -> str:
    return f"{text[:_SHOWN_CHARACTERS]}..." if len(text) > _SHOWN_CHARACTERS else text


def setting(
    default: T,
    kind: Kind,
    *,
    help: str,  # noqa: A002  # the word every reader looks for
    aliases: tuple[str, ...] = (),
    env: tuple[str, ...] = (),
    cli: str = "",
) -> T:
    """Declare a field of a section."""
    metadata = {"kind": kind, "help": help, "aliases": aliases, "environment": env, "option": cli}
    return field(default=default, metadata=metadata)


class Section:
    """A group of settings as attributes: each assignment is checked, and refused once frozen."""

    section: ClassVar[str] = ""

    @classmethod
    def called(cls, name: str) -> Self:
        """One of the tables that have names of their own, which its messages say."""
        made = cls()
        made.__dict__["section"] = cls.section.replace("NAME", name)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        self.assign(name, value)

    def assign(self, name: str, value: object, *, origin: str = "") -> None:
        """Set one setting.

        Args:
            name: its key.
            value: checked against its kind.
            origin: where the value was written, for the message.

        Raises:
            ConfigurationError: unknown key, unacceptable value, or frozen.
        """
        if self.__dict__.get("_frozen"):
            raise frozen_error(f"{self.section}.{name}")
        declared = declared_in(type(self))
        if name not in declared:
            raise ConfigurationError(f"there is no setting {self.section}.{name}{suggest(name, declared)}")
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
    """Where the server is and how to talk to it."""

    section: ClassVar[str] = "redis"

    url: str = setting(
        RedisSettings.url,
        kinds.URL,
        help="The server: `redis://`, `rediss://` (TLS) or `unix://`; user, password and database may be part of it.",
        env=("REDIS_PROVIDER", "REDIS_URL", "VALKEY_URL"),
    )
    key_prefix: str = setting(
        RedisSettings.key_prefix, kinds.text(), help="Put before every key as it is, for example `resque:gitlab:`."
    )
    wire_version: int = setting(
        RedisSettings.wire_version,
        kinds.number_of(6, 7, 8),
        help="The major version of Sidekiq whose form is written. All forms are read.",
    )
    socket_timeout_seconds: float = setting(
        RedisSettings.socket_timeout_seconds, kinds.seconds(above=True), help="How long an answer may take."
    )
    connect_timeout_seconds: float = setting(
        RedisSettings.connect_timeout_seconds, kinds.seconds(above=True), help="How long connecting may take."
    )
    pool_wait_seconds: float = setting(
        RedisSettings.pool_wait_seconds,
        kinds.seconds(),
        help="How long a thread waits for a free connection before it gets an error.",
    )
    sentinels: tuple[str, ...] = setting(
        RedisSettings.sentinels,
        kinds.names("a list of host:port"),
        help="Sentinels as `host:port`; they are asked where the master is, and the host of `url` is not used.",
    )
    sentinel_name: str = setting(
        RedisSettings.sentinel_name, kinds.text(), help="The master's name, needed with `sentinels`."
    )
    sentinel_password: str = setting(
        RedisSettings.sentinel_password, kinds.text(secret=True), help="The Sentinels' own password."
    )
    username: str = setting(RedisSettings.username, kinds.text(), help="The ACL user, when `url` names none.")
    password: str = setting(RedisSettings.password, kinds.text(secret=True), help="The password, when `url` has none.")
    tls_ca_file: str = setting(
        RedisSettings.tls_ca_file,
        kinds.text(),
        help="Certificates that may sign the server's, instead of the system's.",
    )
    tls_cert_file: str = setting(RedisSettings.tls_cert_file, kinds.text(), help="The client's certificate.")
    tls_key_file: str = setting(RedisSettings.tls_key_file, kinds.text(), help="The key of the client's certificate.")
    tls_verify: bool = setting(
        RedisSettings.tls_verify, kinds.FLAG, help="Check the server's certificate and host name."
    )
    client_pool_size: int = setting(
        5,
        kinds.whole(1),
        help="Connections of a process for pushing and for looking at what is stored, and again of each event loop "
        "that pushes. A worker's capsules have pools of their own.",
    )


@dataclass(repr=False)
class ServerSection(RedisSection):
    """One more server, with the settings of `redis`. Nothing is taken over from there."""

    section: ClassVar[str] = "servers.NAME"

    url: str = setting("", kinds.URL_TO_COME, help="The server, as `url` of `redis`; every one needs it.")


@dataclass(repr=False)
class CapsuleSection(Section):
    """A group of threads of its own: how many, and which queues they serve."""

    section: ClassVar[str] = "capsules.NAME"

    concurrency: int = setting(
        5,
        kinds.whole(1, 1000),
        help="How many jobs run at a time. The worker's own is that of `RAILS_MAX_THREADS` when nothing else sets it.",
        cli="-c, --concurrency",
    )
    queues: Sequence[str] = setting(
        (),
        kinds.QUEUES,
        help='Queues to serve: `"name"`, `"name,weight"` or `["name", weight]`; `"*"` is every queue there is. '
        "None given means `default`.",
        cli="-q, --queue",
    )
    mode: str = setting(
        "auto",
        kinds.choice("auto", "strict", "weighted", "random"),
        help="`strict`: a queue is looked at only when those before it are empty. `weighted`: by draw, a queue with "
        "weight 10 comes first ten times as often as one with 1. `random`: all weights alike. `auto` tells by the "
        "weights: none is strict, all 1 is random, else weighted.",
    )


@dataclass(repr=False)
class WorkerSection(CapsuleSection):
    """The worker process; its concurrency, queues and mode are those of the capsule `default`."""

    section: ClassVar[str] = "worker"

    timeout_seconds: float = setting(
        25.0,
        kinds.seconds(),
        help="How long running jobs may go on after a stop was asked for; then they are interrupted and put back.",
        aliases=("timeout",),
        cli="-t, --timeout",
    )
    require: Sequence[str] = setting(
        (),
        kinds.names("a module, a .py file or a folder, or a list of them"),
        help="The application: modules, `.py` files or folders that declare the jobs.",
        cli="-r, --require",
    )
    environment: str = setting(
        "development",
        kinds.text(r"[\w.-]+", "a word such as production"),
        help="Which of the file's `environments` applies, and what jobs may ask for.",
        env=("OFFSIDER_ENV", "APP_ENV", "RAILS_ENV", "RACK_ENV"),
        cli="-e, --environment",
    )
    tag: str = setting(
        "",
        kinds.text(),
        help="Shown in the process title and the web page. Empty: the name of the current folder.",
        cli="-g, --tag",
    )
    labels: Sequence[str] = setting((), kinds.names(), help="Shown beside the process in the web page.")
    fetcher: str = setting(
        "reliable",
        kinds.text(r"reliable|basic|[A-Za-z_][\w.]*[.:]\w+", "reliable, basic or the dotted path of a class"),
        help="How jobs are taken: `reliable` keeps each in a private list until it is settled, `basic` is a plain "
        "BRPOP that loses running jobs with their process, `package.module:Class` is your own.",
    )
    ack: str = setting(
        "merged",
        kinds.choice("merged", "each"),
        help="When finished jobs are acknowledged: `merged` writes those of less than a millisecond together, within "
        "20 ms; `each` writes every one before its thread starts another job. Longer jobs never wait.",
    )
    liveness_seconds: float = setting(
        45.0,
        kinds.seconds(minimum=1.0),
        help="How long a process stays alive in the eyes of others after its last sign of life.",
    )
    max_strikes: int = setting(
        3,
        kinds.whole(-1),
        help="A job is buried when so many processes died while they ran it, the last one while it ran nothing else. "
        "Below 1: never.",
    )
    park_days: int = setting(
        30,
        kinds.whole(0),
        help="A job that no live worker of its queue can run waits so many days for one that can; then it is buried. "
        "0: it is not parked, but fails and is retried as any other.",
    )
    max_retries: int = setting(25, kinds.whole(0), help="How often a job with `retry = true` is retried.")
    dead_max_jobs: int = setting(10_000, kinds.whole(1), help="The dead set is cut to fewer than so many jobs.")
    dead_timeout_seconds: float = setting(
        15_552_000.0,
        kinds.seconds(above=True),
        help="Jobs leave the dead set after this time (180 days).",
        aliases=("dead_timeout_in_seconds",),
    )
    quarantine_days: int = setting(
        30, kinds.whole(1), help="Jobs that were put into quarantine can be restored for so many days."
    )
    quarantine_max_jobs: int = setting(
        100_000,
        kinds.whole(1),
        help="Once so many jobs lie in quarantine, a switch that drops jobs deletes them. What people put there is "
        "kept in any case.",
    )
    reload: bool = setting(
        False, kinds.FLAG, help="Start the worker anew when a source file changes. For development.", cli="--reload"
    )
    metrics: bool = setting(
        True,
        kinds.FLAG,
        help="Count runs, failures and times of each job class for the metrics pages and for monitoring, and note "
        "failed attempts and groups of errors.",
    )
    keeper: bool = setting(
        True,
        kinds.FLAG,
        help="Have a small process beside the worker that beats for it while a job holds the interpreter, and gives "
        "its jobs back at once when it dies.",
        cli="--no-keeper",
    )
    health: str = setting(
        "",
        kinds.ADDRESS,
        help="Where `/live`, `/ready` and `/metrics` answer over HTTP, as `host:port`; a port alone is one of "
        "127.0.0.1. Empty: nowhere.",
        aliases=("health_check",),
        cli="--health",
    )
    leader: str = setting(
        "auto",
        kinds.choice("auto", "always", "never"),
        help="Whether this process stands for election as the one leader, as those of Sidekiq Enterprise do: `auto` "
        "only when the application listens to the event `leader`. `never` leaves it to others.",
    )
    shard: str = setting(
        "",
        kinds.text(),
        help="The shard that the worker serves: the name of a table below `shards`, whose queues, concurrency, "
        "processes, mode and server then hold in place of those here. The variables are read by `offsider worker` "
        "alone, so that one environment can be that of all programs.",
        cli="--shard",
    )
    processes: int = setting(
        0,
        kinds.processes(),
        help="How many worker processes a supervisor forks and looks after, each with all the capsules. `auto` is one "
        "per core. 0: one process, without a supervisor.",
        env=("SIDEKIQ_COUNT",),
        cli="-p, --processes",
    )
    groups: Sequence[str] = setting(
        (),
        kinds.GROUPS,
        help="Queues of the supervisor's processes: each serves one group, in turn, in place of `queues`. Without "
        "`processes` there is one for each group. In the environment divided by `;`.",
        cli="-G, --group",
    )
    preload: bool = setting(
        False,
        kinds.FLAG,
        help="Load the application once, before the processes are forked: they share its memory. It must not start "
        "threads while it is loaded.",
        env=("SIDEKIQ_PRELOAD_APP",),
        cli="--preload",
    )
    pin_cpus: bool = setting(
        False, kinds.FLAG, help="Bind each of the processes to one core, in turn. Linux only; nothing elsewhere."
    )
    memory_soft_mb: int = setting(
        0,
        kinds.whole(0),
        help="A process that holds more memory (RSS, in MB) than this for `memory_grace_seconds` is replaced; without "
        "a supervisor it ends. 0: never.",
    )
    memory_hard_mb: int = setting(
        0,
        kinds.whole(0),
        help="A process that holds more memory (RSS, in MB) than this is replaced at once; without a supervisor it "
        "ends. 0: never.",
        env=("SIDEKIQ_MAXMEM_MB",),
    )
    memory_grace_seconds: float = setting(
        900.0, kinds.seconds(), help="How long a process may stay above `memory_soft_mb`."
    )
    memory_min_life_seconds: float = setting(
        60.0, kinds.seconds(), help="A younger process is never replaced for its memory."
    )


@dataclass(repr=False)
class ShardSection(Section):
    """A group of queues that workers serve together: those that are started with its name."""

    section: ClassVar[str] = "shards.NAME"

    queues: Sequence[str] = setting(
        (), kinds.QUEUES, help="The queues that it serves, as of a capsule. None given: those that `select` finds."
    )
    select: str = setting(
        "",
        kinds.QUERY,
        help="A query as of routing rules, in place of `queues`: it serves the queues that the jobs it chooses are "
        "sent to.",
    )
    concurrency: int = setting(0, kinds.whole(0, 1000), help="Jobs at a time in each process. 0: as `worker` says.")
    processes: int = setting(0, kinds.processes(), help="How many processes a supervisor forks. 0: as `worker` says.")
    mode: str = setting(
        "auto", kinds.choice("auto", "strict", "weighted", "random"), help="The order of its queues, as of a capsule."
    )
    server: str = setting(
        MAIN, kinds.text(r".+", "the name of a server"), help="Where its jobs are: `main` is the server of `redis`."
    )
    min_replicas: int = setting(
        -1,
        kinds.whole(-1),
        help="The least number of processes that autoscalers are told it should have. -1: as `slo`.",
    )
    max_replicas: int = setting(0, kinds.whole(0), help="The highest one. 0: as `slo` says.")


@dataclass(repr=False)
class ClientSection(Section):
    """Pushing jobs."""

    section: ClassVar[str] = "client"

    strict_args: str = setting(
        "raise",
        kinds.choice("raise", "warn", "off"),
        help="What happens to arguments that would not survive JSON: an error, a warning, or nothing.",
    )
    app_version: str = setting(
        COMMIT,
        kinds.text(),
        help="The version of the application, which jobs and processes carry: a release such as `2.14`. `git` is the "
        "commit that is checked out in the current folder, if there is one; empty is none.",
    )
    large_payloads: str = setting(
        "track",
        kinds.choice("track", "compress", "off"),
        help="What is done with large payloads: `track` warns of them and emits the event `large_payload`; `compress` "
        "also stores the arguments of jobs that are declared in Python compressed, once all workers can read that; "
        "`off` is neither. `payload_limit_bytes` holds in any case.",
    )
    large_payload_bytes: int = setting(
        1_000_000,
        kinds.whole(SMALL_BYTES),
        help="A payload that is stored with more bytes is pushed with a warning.",
        aliases=("large_argument_bytes",),
    )
    compress_bytes: int = setting(
        100_000, kinds.whole(SMALL_BYTES), help="With `compress`: payloads of so many bytes are."
    )
    payload_limit_bytes: int = setting(
        0,
        kinds.whole(SMALL_BYTES, or_zero=True),
        help="A push that would store more bytes is refused, but for jobs with `big_payload`. 0: none is.",
    )


@dataclass(repr=False)
class RoutingSection(Section):
    """Which queue a job goes to, by what it says of itself."""

    section: ClassVar[str] = "routing"

    rules: Rules = setting(  # noqa: RUF009  # rules never change
        NO_RULES,
        kinds.RULES,
        help="Rules that choose the queue of a job: the first whose query matches wins over the queue that the job "
        "declares. An empty queue means the one named after the job. They act where jobs are pushed, so all "
        "programs should have the same.",
        aliases=("routing_rules",),
    )


@dataclass(repr=False)
class SloSection(Section):
    """What is promised of jobs by their urgency, and how many processes it may take."""

    section: ClassVar[str] = "slo"

    high_queue_seconds: float = setting(
        10.0,
        kinds.seconds(),
        help="A job of high urgency begins to run within so many seconds after it was due. 0: nothing is promised.",
    )
    high_run_seconds: float = setting(
        10.0, kinds.seconds(), help="It is done so many seconds later. 0: nothing is promised."
    )
    low_queue_seconds: float = setting(
        60.0, kinds.seconds(), help="The same for jobs of low urgency, which are those that say nothing."
    )
    low_run_seconds: float = setting(300.0, kinds.seconds(), help="The same for how long they run.")
    throttled_queue_seconds: float = setting(0.0, kinds.seconds(), help="The same for jobs of the urgency throttled.")
    throttled_run_seconds: float = setting(300.0, kinds.seconds(), help="The same for how long they run.")
    apdex_objective: float = setting(
        0.995,
        kinds.share(),
        help="The share of runs that succeed and keep both targets. What it allows to fail is the error budget.",
    )
    budget_window: str = setting(
        "3d", kinds.choice("1h", "6h", "3d"), help="The time that the error budget is for, up to now."
    )
    min_replicas: int = setting(
        1, kinds.whole(0), help="The least number of processes that autoscalers are told a shard should have."
    )
    max_replicas: int = setting(20, kinds.whole(1), help="The highest one.")

    def target(self, urgency: str) -> Target:
        """What is promised of jobs of an urgency."""
        queue, run = (getattr(self, f"{urgency}_{what}_seconds") or math.inf for what in ("queue", "run"))
        return Target(queue, run)

    def replicas_of(self, shard: ShardSection | None) -> tuple[int, int]:
        """The least and the highest number of processes that a shard should have."""
        if shard is None:
            return self.min_replicas, self.max_replicas
        least = self.min_replicas if shard.min_replicas < 0 else shard.min_replicas
        return least, shard.max_replicas or self.max_replicas

    def freeze(self) -> None:
        if self.min_replicas > self.max_replicas:
            raise ConfigurationError(
                f"slo.min_replicas is {self.min_replicas}, above slo.max_replicas, {self.max_replicas}: "
                "set it to that at most"
            )
        super().freeze()


@dataclass(repr=False)
class LogSection(Section):
    """The log of the worker's command line."""

    section: ClassVar[str] = "log"

    format: str = setting(
        "pretty",
        kinds.choice("pretty", "plain", "without_timestamp", "json", "structured"),
        help="`pretty` has colours on a terminal, `plain` never; `without_timestamp` is for platforms that add their "
        "own (the default on Heroku); `json` is Sidekiq's one object per line; `structured` is one flat object per "
        "line with GitLab's field names and all timings.",
    )
    level: str = setting(
        "info",
        kinds.choice(
            "debug", "info", "warning", "error", "critical", synonyms={"warn": "warning", "fatal": "critical"}
        ),
        help="The least level that is written.",
        cli="-v, --verbose",
    )
    job_log: bool = setting(True, kinds.FLAG, help="Write the lines start, done and fail of each job.")
    arguments: bool = setting(
        False,
        kinds.FLAG,
        help="Tell the arguments of jobs in `structured` lines, the first 1,000 characters. They may be secret.",
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
    """The settings of a section by key."""
    if section not in _declared:
        _declared[section] = {
            item.name: Setting(section=section.section, key=item.name, default=item.default, **item.metadata)
            for item in fields(cast("Any", section))
        }
    return _declared[section]


@cache
def every_setting() -> tuple[Setting, ...]:
    """All settings of all sections, in the order of the reference."""
    return tuple(item for section in SECTIONS for item in declared_in(section).values())


@cache
def by_name() -> Mapping[str, Setting]:
    """Settings by ``section.key`` and by the bare key, aliases included."""
    found: dict[str, Setting] = {}
    for item in every_setting():
        for key in (item.key, *item.aliases):
            found[key] = found[f"{item.section}.{key}"] = item
    return found
