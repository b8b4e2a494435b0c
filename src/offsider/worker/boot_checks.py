"""What is looked at before a worker starts: faults that would show later as lost or stuck jobs.

1. `check_server` asks the server once; what it cannot carry jobs with is an error, what is risky a warning.
2. `check_stored_jobs` and `check_other_processes` look at what lies and runs there already.

Every check is one small function that takes what it judges, and answers a warning, or None, or raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import (
    ConfigurationError,
    MalformedPayload,
    RedisFailure,
    RedisRefused,
    UnsupportedServer,
)
from offsider.core.payload import decode
from offsider.jobs import registry
from offsider.storage import owners, processes
from offsider.storage.samples import stored_payloads
from offsider.storage.scripts import drop_flags, flags_are_accepted
from offsider.storage.server_info import OLDEST, ServerInfo, server_info

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config

SAMPLE = 50
MOST_NAMES = 10


def check_boot(config: Config) -> list[str]:
    """Run every check; answers the warnings.

    Raises:
        UnsupportedServer: the server cannot carry jobs.
        ConfigurationError: the login was refused.
        RedisUnavailable: the server cannot be reached.
    """
    redis = config.make_redis(1)
    try:
        return [
            *check_server(config, redis),
            *check_capsules(config.capsules.values()),
            *_optional(lambda: check_stored_jobs(config, redis)),
            *_optional(lambda: check_other_processes(config, redis)),
        ]
    finally:
        redis.close()


# ---------------------------------------------------------------------------------------- the server
def check_server(config: Config, redis: Redis) -> list[str]:
    """The checks of the server itself."""
    where = config.redis.redacted_url
    info = _asked(redis, where)
    for fatal in (check_mode, check_role, check_version):
        fatal(info, where)
    flags = check_scripts(redis, where)
    warnings = (flags, check_policy(info), check_persistence(info), check_memory(info), check_forbidden(info))
    return [f"{where}: {warning}" for warning in warnings if warning]


def _asked(redis: Redis, where: str) -> ServerInfo:
    try:
        return server_info(redis)
    except RedisRefused as error:
        if error.code in {"NOAUTH", "WRONGPASS", "NOPERM"}:
            raise ConfigurationError(
                f"{where} refused the login: redis.url, redis.username or redis.password is wrong"
            ) from error
        raise


def check_mode(info: ServerInfo, where: str) -> None:
    """A Cluster spreads keys, and scripts need them together; a Sentinel stores nothing."""
    if info.mode == "cluster":
        raise UnsupportedServer(f"{where} is a Cluster, which is not supported: use a standalone server, or Sentinel")
    if info.mode == "sentinel":
        raise UnsupportedServer(f"{where} is a Sentinel: put its address into redis.sentinels, not into redis.url")


def check_role(info: ServerInfo, where: str) -> None:
    """A replica takes no writes."""
    if info.role == "replica":
        raise UnsupportedServer(f"{where} is a read-only replica: redis.url has to name the master")


def check_version(info: ServerInfo, where: str) -> None:
    """Older servers lack script flags and commands that the delivery rests on."""
    oldest = OLDEST.get(info.kind or "")
    if oldest and info.version is not None and info.version < oldest:
        raise UnsupportedServer(
            f"{where} is {info.kind} {info.version_text}, which is too old: Redis 7.0, Valkey 7.2 or newer is needed"
        )


def check_scripts(redis: Redis, where: str) -> str | None:
    """Without scripts nothing moves atomically; without their flags nothing moves when memory is full."""
    try:
        if flags_are_accepted(redis):
            return None
    except RedisRefused as error:
        raise UnsupportedServer(
            f"{where} does not run Lua scripts for this user, and reliable fetching needs them: {error}"
        ) from error
    drop_flags()
    return "it does not know script flags, so jobs cannot be taken, retried or finished while its memory is full"


def check_policy(info: ServerInfo) -> str | None:
    """An evicting server throws jobs away when its memory is full."""
    if info.policy is None or info.policy == "noeviction":
        return None
    return f"maxmemory-policy is {info.policy}: jobs may be thrown away when memory is full; set it to noeviction"


def check_persistence(info: ServerInfo) -> str | None:
    """A server that keeps nothing on disk loses all jobs when it restarts."""
    if info.aof is False and info.rdb is False:
        return "neither AOF nor RDB is on: a restart of the server loses all jobs; set appendonly yes"
    return None


def check_memory(info: ServerInfo) -> str | None:
    """A full server refuses pushes. The worker starts all the same: running the jobs is what makes room."""
    if info.max_memory and info.used_memory is not None and info.used_memory >= info.max_memory:
        return f"out of memory ({info.used_memory} of {info.max_memory} bytes): pushes are refused until jobs have run"
    return None


def check_forbidden(info: ServerInfo) -> str | None:
    """What could not be asked is said to be unknown."""
    if not info.forbidden:
        return None
    unknown = [
        what
        for what, value in (
            ("version", info.version),
            ("role", info.role),
            ("maxmemory-policy", info.policy),
            ("AOF", info.aof),
            ("RDB", info.rdb),
        )
        if value is None
    ]
    return f"this user may not call {', '.join(info.forbidden)}: unknown are {', '.join(unknown)}" if unknown else None


# ---------------------------------------------------------------------------------------- capsules
def check_capsules(capsules: Iterable[Capsule]) -> Iterator[str]:
    """A pool smaller than the number of threads makes them wait for each other."""
    for capsule in capsules:
        if capsule.redis.size < capsule.concurrency:
            yield (
                f"capsule {capsule.name}: {capsule.redis.size} connections for {capsule.concurrency} threads; "
                "they will wait for each other"
            )


# ------------------------------------------------------------------------------------ what is stored
def check_stored_jobs(config: Config, redis: Redis) -> Iterator[str]:
    """Stored names that nobody registers: each such job would fail and be retried."""
    queues = list(dict.fromkeys(queue for capsule in config.capsules.values() for queue in capsule.queues))
    missing = unregistered(stored_payloads(redis, queues, limit=SAMPLE), registry.names())
    if missing:
        shown = ", ".join(missing[:MOST_NAMES]) + (", …" if len(missing) > MOST_NAMES else "")
        yield f"jobs are stored under names that nothing registers: {shown} (renamed? give the job an alias; see -r)"


def unregistered(raws: Iterable[bytes], known: Collection[str]) -> list[str]:
    """The names in ``raws`` that are not known, sorted."""
    return sorted({name for raw in raws if (name := _name(raw)) and name not in known})


def _name(raw: bytes) -> str | None:
    try:
        return decode(raw).get("class")
    except MalformedPayload:
        return None  # reported when it runs: it goes to the dead set


# ----------------------------------------------------------------------------------- other processes
def check_other_processes(config: Config, redis: Redis) -> Iterator[str]:
    """A live Ruby process that is older than what we write could not read our times and backtraces."""
    ours = {lists.identity for lists in owners.registered(redis)}
    wanted = config.redis.wire_version
    others = [identity for identity in processes.identities(redis) if identity not in ours]
    for identity, raw in processes.infos(redis, others).items():
        spoken = wire_version_of(raw)
        if spoken is not None and spoken < wanted:
            yield (
                f"the process {identity} is Sidekiq {spoken}, which does not read what is written with "
                f"wire_version = {wanted}; set redis.wire_version = {spoken}"
            )


def wire_version_of(raw: bytes) -> int | None:
    """The major version of the Sidekiq that wrote this ``info``; None when that cannot be told."""
    try:
        info: Any = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(info, dict):
        return None
    version = cast("dict[str, Any]", info).get("version")
    if version is None:
        return 6  # 7.0 was the first to tell
    major = str(version).partition(".")[0]
    return int(major) if major in {"6", "7", "8"} else None


def _optional(check: Callable[[], Iterable[str]]) -> list[str]:
    """A look at stored data is a courtesy: what it cannot read must not keep the worker from starting."""
    try:
        return list(check())
    except (RedisFailure, ValueError) as error:
        return [f"a look at what is stored failed: {error}"]
