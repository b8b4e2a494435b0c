"""Checks before a worker starts, for faults that would later cause lost or stuck jobs.

1. `check_server` reads the server's state once. A state in which jobs cannot run is an error, a risky one a warning.
2. `check_stored_jobs` and `check_other_processes` examine the stored jobs and the processes on the server.

Each check is one small function. It returns a warning or None, or raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from offsider.config.installation import Installation
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
from offsider.storage.redis_errors import IS_CLUSTER
from offsider.storage.sample import next_jobs
from offsider.storage.scripts import drop_flags, flags_are_accepted
from offsider.storage.server_info import OLDEST, ServerInfo, server_info

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis

SAMPLE = 50
MOST_NAMES = 10


def check_boot(config: Config) -> list[str]:
    """Run every check and return the warnings.

    Raises:
        UnsupportedServer: jobs cannot run on this server.
        ConfigurationError: the login was refused.
        RedisUnavailable: the server cannot be reached.
    """
    redis = Installation.of(config).make_redis(1)
    try:
        return [
            *check_server(config, redis),
            *_optional(lambda: check_stored_jobs(config, redis)),
            *_optional(lambda: check_other_processes(config, redis)),
        ]
    finally:
        redis.close()


# ---------------------------------------------------------------------------------------- the server
def check_server(config: Config, redis: Redis) -> list[str]:
    """Check the server itself."""
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
    """Reject a Cluster, where one script cannot use keys of several nodes, and a Sentinel, which stores no data."""
    if info.mode == "cluster":
        raise UnsupportedServer(f"{where} {IS_CLUSTER}")
    if info.mode == "sentinel":
        raise UnsupportedServer(f"{where} is a Sentinel: put its address into redis.sentinels, not into redis.url")


def check_role(info: ServerInfo, where: str) -> None:
    """Reject a replica: it refuses writes."""
    if info.role == "replica":
        raise UnsupportedServer(f"{where} is a read-only replica: set redis.url to the master")


def check_version(info: ServerInfo, where: str) -> None:
    """Reject an old server: it lacks script flags and commands that reliable delivery needs."""
    oldest = OLDEST.get(info.kind or "")
    if oldest and info.version is not None and info.version < oldest:
        raise UnsupportedServer(
            f"{where} is {info.kind} {info.version_text}, which is too old: Redis 7.0, Valkey 7.2 or newer is required"
        )


def check_scripts(redis: Redis, where: str) -> str | None:
    """Require scripts, which move jobs atomically; warn if scripts without flags fail while memory is full."""
    try:
        if flags_are_accepted(redis):
            return None
    except RedisRefused as error:
        raise UnsupportedServer(
            f"{where} does not run Lua scripts for this user, and reliable fetching requires them: {error}"
        ) from error
    drop_flags()
    return "script flags are not supported, so workers cannot claim, retry or finish jobs while memory is full"


def check_policy(info: ServerInfo) -> str | None:
    """Warn if the server evicts keys, and so deletes jobs, when its memory is full."""
    if info.policy is None or info.policy == "noeviction":
        return None
    return f"maxmemory-policy is {info.policy}: jobs may be deleted when memory is full; set it to noeviction"


def check_persistence(info: ServerInfo) -> str | None:
    """Warn if the server writes nothing to disk: a restart would lose all jobs."""
    if info.aof is False and info.rdb is False:
        return "neither AOF nor RDB is on: a restart of the server loses all jobs; set appendonly yes"
    return None


def check_memory(info: ServerInfo) -> str | None:
    """Warn if memory is full, so that pushes fail. The worker starts nevertheless: running jobs frees memory."""
    if info.max_memory and info.used_memory is not None and info.used_memory >= info.max_memory:
        return f"out of memory ({info.used_memory} of {info.max_memory} bytes): pushes fail until jobs have run"
    return None


def check_forbidden(info: ServerInfo) -> str | None:
    """Warn about facts that could not be read because the ACL forbids the commands."""
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
    return f"this user may not call {', '.join(info.forbidden)}: not checked: {', '.join(unknown)}" if unknown else None


# ------------------------------------------------------------------------------------ what is stored
def check_stored_jobs(config: Config, redis: Redis) -> Iterator[str]:
    """Warn about stored jobs with unregistered names: this worker cannot run them."""
    queues = list(dict.fromkeys(queue for capsule in config.capsules.values() for queue in capsule.queues))
    missing = unregistered(next_jobs(redis, queues, limit=SAMPLE), registry.names())
    if missing:
        shown = ", ".join(missing[:MOST_NAMES]) + (", …" if len(missing) > MOST_NAMES else "")
        yield f"stored jobs have unregistered names: {shown} (import their module with -r, or add an alias)"


def unregistered(raws: Iterable[bytes], known: Collection[str]) -> list[str]:
    """Return the names in ``raws`` that are not in ``known``, sorted."""
    return sorted({name for raw in raws if (name := _name(raw)) and name not in known})


def _name(raw: bytes) -> str | None:
    try:
        return decode(raw).get("class")
    except MalformedPayload:
        return None  # reported later: a worker moves it to the dead set


# ----------------------------------------------------------------------------------- other processes
def check_other_processes(config: Config, redis: Redis) -> Iterator[str]:
    """Warn if a Ruby process is older than the wire version, or if all of them are newer.

    Older ones cannot read our timestamps and backtraces; newer ones read metrics and running jobs from other keys.
    """
    ours = {lists.identity for lists in owners.registered(redis)}
    wanted = config.redis.wire_version
    others = [identity for identity in processes.identities(redis) if identity not in ours]
    found = {identity: wire_version_of(raw) for identity, raw in processes.infos(redis, others).items()}
    oldest = min((spoken for spoken in found.values() if spoken is not None), default=wanted)
    if oldest > wanted:
        yield (
            f"the Ruby processes on this server are Sidekiq {oldest} or newer, and wire_version = {wanted}: their "
            f"pages may not show our metrics and running jobs; set redis.wire_version = {oldest}"
        )
    for identity, spoken in found.items():
        if spoken is not None and spoken < wanted:
            yield (
                f"the process {identity} is Sidekiq {spoken}, which cannot read payloads written with "
                f"wire_version = {wanted}; set redis.wire_version = {spoken}"
            )


def wire_version_of(raw: bytes) -> int | None:
    """Return the major version of the Sidekiq that wrote this ``info``; None if unknown."""
    try:
        info: Any = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(info, dict):
        return None
    version = cast("dict[str, Any]", info).get("version")
    if version is None:
        return 6  # Sidekiq reports its version since 7.0
    major = str(version).partition(".")[0]
    return int(major) if major in {"6", "7", "8"} else None


def _optional(check: Callable[[], Iterable[str]]) -> list[str]:
    """Run a check of stored data; its failure is a warning and does not prevent the start."""
    try:
        return list(check())
    except (RedisFailure, ValueError) as error:
        return [f"cannot check the stored jobs and processes: {error}"]
