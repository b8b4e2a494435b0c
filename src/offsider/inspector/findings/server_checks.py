"""Check the server: version, role, scripts, persistence, memory, connections, replicas, and the versions of Ruby.

A worker runs `BOOT_CHECKS`, `check_scripts` and `check_wire_version` before it starts. It refuses to start if a finding
is fatal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from offsider.core.errors import RedisRefused
from offsider.core.wording import counted
from offsider.inspector import finding
from offsider.inspector.finding import Finding
from offsider.inspector.server_info import ServerInfo
from offsider.storage.redis import Redis
from offsider.storage.scripts import drop_flags, flags_are_accepted
from offsider.storage.server_version import is_too_old

warn, error, fatal = (partial(make, kind="server") for make in (finding.warn, finding.error, finding.fatal))

FULL_WARN, FULL_ERROR = 0.8, 0.95
MEGABYTE = 1_000_000
#: Role or mode -> what it is, why workers refuse to start, and what to do.
_REFUSED = {
    "cluster": (
        "the server is a Cluster, and its URL is that of a single server",
        "the node stores only a part of the keys, so workers refuse to start",
        "write the URL as redis+cluster://host:port (TLS: rediss+cluster://)",
    ),
    "sentinel": (
        "the server is a Sentinel",
        "it stores no jobs, so workers refuse to start",
        "put its address into redis.sentinels, not into redis.url",
    ),
    "replica": (
        "the server is a read-only replica",
        "clients cannot push, and workers cannot claim or finish jobs",
        "set redis.url to the primary, or set redis.sentinels",
    ),
}


# ------------------------------------------------------------------------------ checked at the start of a worker, too
def check_role(info: ServerInfo) -> Iterator[Finding]:
    """Check that the server is a master that stores all keys and accepts writes."""
    if info.cluster and info.mode == "standalone":
        yield warn(
            "cluster",
            "the server is no Cluster, and its URL is that of a Cluster",
            cause=f"all keys begin with a hash tag ({info.cluster}), so programs with redis:// do not see these jobs",
            actions=("write the URL as redis://host:port, unless a proxy hides the Cluster",),
        )
    for role in (info.role, info.mode):
        if role in _REFUSED and not (role == "cluster" and info.cluster):
            what, cause, action = _REFUSED[role]
            yield fatal("role", what, cause=cause, actions=(action,))


def check_version(info: ServerInfo) -> Iterator[Finding]:
    """Check that the server is new enough for script flags and the commands of reliable delivery."""
    if is_too_old(info.store, info.version_info):
        yield fatal(
            "version",
            f"{info.store} {info.version} is too old",
            cause="workers refuse to start: their scripts need newer commands",
            actions=("upgrade to Redis 7.0, Valkey 7.2 or newer",),
        )


def check_scripts(redis: Redis) -> Iterator[Finding]:
    """Check that the server runs scripts, which move jobs atomically, also while memory is full.

    If it rejects script flags, this process continues without them.
    """
    try:
        accepted = flags_are_accepted(redis)
    except RedisRefused as refusal:
        yield fatal(
            "scripts",
            f"the server does not run Lua scripts for this user ({refusal})",
            cause="workers refuse to start, because reliable fetching requires scripts",
            actions=("ACL SETUSER NAME +@scripting, or use a server with scripts",),
        )
        return
    if not accepted:
        drop_flags()
        yield warn(
            "scripts",
            "script flags are not supported",
            cause="workers cannot claim, retry or finish jobs while memory is full",
            actions=("keep the memory from filling up, or use Redis or Valkey",),
        )


def check_eviction(info: ServerInfo) -> Iterator[Finding]:
    """Check that a full server does not evict jobs."""
    if info.policy not in ("", "noeviction"):
        judge = error if info.max_memory_bytes else warn
        yield judge(
            "eviction",
            f"maxmemory-policy is {info.policy}",
            cause="a full server evicts jobs instead of rejecting new ones",
            actions=_settings(info, "maxmemory-policy noeviction"),
            numbers={"evicted_keys": info.evicted or 0},
        )


def check_persistence(info: ServerInfo) -> Iterator[Finding]:
    """Check that a restart of the server keeps the jobs."""
    if info.aof is False and info.rdb is False:
        yield error(
            "persistence",
            "neither AOF nor RDB is on",
            cause="a restart of the server loses all jobs",
            actions=_settings(info, "appendonly yes"),
        )


def check_memory(info: ServerInfo) -> Iterator[Finding]:
    """Check how full the memory is. Workers start nevertheless: running jobs frees memory."""
    used, limit = info.used_memory_bytes or 0, info.max_memory_bytes or 0
    if limit and used >= limit * FULL_WARN:
        judge = error if used >= limit * FULL_ERROR else warn
        what = f"{used / limit:.0%} of the memory used" if used < limit else "out of memory"
        yield judge(
            "memory",
            f"{what} ({_size(used)} of {_size(limit)})",
            cause="while memory is full, pushes fail with QueueFull until workers have finished jobs",
            actions=("raise maxmemory, add workers, or find out what fills it: offsider queues, the page Quarantine",),
            numbers={"used_bytes": used, "limit_bytes": limit},
        )


def _size(amount: int) -> str:
    return f"{amount // MEGABYTE} MB" if amount >= MEGABYTE else counted(amount, "byte")


def check_forbidden(info: ServerInfo) -> Iterator[Finding]:
    """Name the facts that this user may not read, or that the server does not report (rule 21)."""
    facts = {
        "version": info.version,
        "role": info.role,
        "maxmemory-policy": info.policy,
        "AOF": info.aof,
        "RDB": info.rdb,
        "memory": info.used_memory_bytes,
    }
    unknown = ", ".join(what for what, value in facts.items() if value in (None, ""))
    if unknown:
        refused = f"this user may not call {', '.join(info.forbidden)}"
        reason = refused if info.forbidden else "the server does not report everything"
        yield warn(
            "unknown",
            f"{reason}, so these were not checked: {unknown}",
            cause="a server that can lose jobs would not be noticed",
            actions=("ACL SETUSER NAME +info +config|get, or check these settings of the server yourself",),
        )


BOOT_CHECKS = (check_role, check_version, check_eviction, check_persistence, check_memory, check_forbidden)


# -------------------------------------------------------------------------------------------- only the doctor's checks
def check_durability(info: ServerInfo) -> Iterator[Finding]:
    """Check that a crash of the server keeps the latest jobs."""
    if info.rdb and info.aof is False:
        yield warn(
            "persistence",
            "only snapshots (RDB) are written",
            cause="a crash loses jobs pushed since the last snapshot, and jobs finished since then run again",
            actions=_settings(info, "appendonly yes"),
        )
    elif info.aof and info.fsync == "no":
        yield warn(
            "persistence",
            "the operating system decides when to flush the append-only file (appendfsync no)",
            cause="a power loss loses up to half a minute of jobs",
            actions=_settings(info, "appendfsync everysec"),
        )


def check_saves(info: ServerInfo) -> Iterator[Finding]:
    """Check that the last write to disk succeeded."""
    if info.failed_saves:
        yield error(
            "saves",
            f"the last write to disk failed ({', '.join(info.failed_saves)})",
            cause="the server may refuse all writes, and a restart loses unsaved data",
            actions=("check the server's log and the free space on its disk",),
        )


def check_clients(info: ServerInfo) -> Iterator[Finding]:
    """Check the number of connections."""
    clients, limit = info.connected_clients or 0, info.max_clients or 0
    if limit and clients >= limit * FULL_WARN:
        judge = error if clients >= limit * FULL_ERROR else warn
        yield judge(
            "clients",
            f"{clients:,} of {limit:,} connections are open",
            cause="at the limit the server rejects new workers and clients",
            actions=("raise maxclients, or lower redis.client_pool_size and the concurrency",),
            numbers={"clients": clients, "limit": limit},
        )


def check_replicas(info: ServerInfo) -> Iterator[Finding]:
    """Check that enough replicas are connected for writes."""
    good, needed = info.good_replicas or 0, info.least_replicas or 0
    if good < needed:
        yield error(
            "replicas",
            f"{good} of at least {needed} replicas are in sync",
            cause="the server rejects all writes (NOREPLICAS) until enough replicas are in sync",
            actions=("repair the replicas", *_settings(info, "min-replicas-to-write 0")),
            numbers={"replicas": good, "limit": needed},
        )


SERVER_CHECKS: tuple[Callable[[ServerInfo], Iterator[Finding]], ...] = (
    *BOOT_CHECKS,
    check_durability,
    check_saves,
    check_clients,
    check_replicas,
)


def _settings(info: ServerInfo, setting: str) -> tuple[str, ...]:
    """Return the command that changes a setting: of the server, or of every node of a Cluster."""
    is_cluster = info.cluster and info.mode != "standalone"
    every_node = f"--cluster call {info.cluster.rpartition(' ')[2]} " if is_cluster else ""
    return (f"redis-cli {every_node}CONFIG SET {setting} (and in redis.conf)",)


def check_wire_version(written: int, rubys: Mapping[str, str]) -> Iterator[Finding]:
    """Find Ruby processes that are older than the wire version, and check whether all of them are newer.

    Older ones cannot read our timestamps and backtraces; newer ones read metrics and running jobs from other keys.

    Args:
        written: the wire version that this program writes.
        rubys: identity -> version of Sidekiq; empty before 7.0, which was the first to report it.
    """
    majors = {identity: _major(version) for identity, version in rubys.items()}
    oldest = min((major for major in majors.values() if major is not None), default=written)
    if oldest > written:
        yield warn(
            "wire version",
            f"wire_version is {written}, but all Ruby processes are Sidekiq {oldest} or newer",
            cause="Sidekiq's web UI may not show offsider's metrics and running jobs, which newer versions store under "
            "other keys",
            actions=(f"set redis.wire_version = {oldest}",),
        )
    for identity, major in majors.items():
        if major is not None and major < written:
            yield error(
                "wire version",
                f"{identity} is Sidekiq {rubys[identity] or '6 or older'}, but wire_version is {written}",
                cause="it cannot read times and backtraces in that format",
                actions=(f"set redis.wire_version = {major}, or upgrade Sidekiq",),
                subject=identity,
            )


def _major(version: str) -> int | None:
    """Return the wire version of a version of Sidekiq; None if unknown."""
    major = version.partition(".")[0] or "6"
    return int(major) if major in {"6", "7", "8"} else None
