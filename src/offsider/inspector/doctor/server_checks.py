"""Check the server: version, role, scripts, persistence, memory, connections, latency, clock, replicas, Ruby.

A worker runs `BOOT_CHECKS`, `check_scripts` and `check_wire_version` before it starts. It refuses to start if a finding
is fatal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from offsider.core.errors import RedisRefused
from offsider.core.wording import counted
from offsider.inspector.finding import Finding, error, fatal, ok, warn
from offsider.storage.clocks import Comparison
from offsider.storage.redis import Redis
from offsider.storage.scripts import drop_flags, flags_are_accepted
from offsider.storage.server_info import ServerFacts
from offsider.storage.server_version import OLDEST, is_too_old

FULL_WARN, FULL_ERROR = 0.8, 0.95
SLOW_WARN_SECONDS, SLOW_ERROR_SECONDS = 0.01, 0.05
DRIFT_WARN_SECONDS, DRIFT_ERROR_SECONDS = 1.0, 30.0
MEGABYTE = 1_000_000
_MAKE_ROOM = "raise maxmemory, add workers, or find out what fills it: offsider queues, and the page Quarantine"


# ------------------------------------------------------------------------------ checked at the start of a worker, too
def check_role(info: ServerFacts) -> Iterator[Finding]:
    """Check that the server is a master that stores all keys and accepts writes."""
    if info.cluster and info.mode == "standalone":
        yield warn(
            "cluster",
            "the server is no Cluster, and its URL is that of a Cluster",
            cause=f"all keys begin with a hash tag ({info.cluster}), so programs with redis:// do not see these jobs",
            action="write the URL as redis://host:port, unless a proxy hides the Cluster",
        )
    elif info.cluster:
        yield ok("cluster", info.cluster)
    elif info.mode == "cluster":
        yield fatal(
            "role",
            "the server is a Cluster, and its URL is that of a single server",
            cause="the node stores only a part of the keys, so workers refuse to start",
            action="write the URL as redis+cluster://host:port (TLS: rediss+cluster://)",
        )
    if info.mode == "sentinel":
        yield fatal(
            "role",
            "the server is a Sentinel",
            cause="it stores no jobs, so workers refuse to start",
            action="put its address into redis.sentinels, not into redis.url",
        )
    if info.role == "replica":
        yield fatal(
            "role",
            "the server is a read-only replica",
            cause="clients cannot push, and workers cannot claim or finish jobs",
            action="set redis.url to the primary, or set redis.sentinels",
        )


def check_version(info: ServerFacts) -> Iterator[Finding]:
    """Check that the server is new enough for script flags and the commands of reliable delivery."""
    if info.version is None or info.kind not in OLDEST:
        return
    if is_too_old(info.kind, info.version):
        yield fatal(
            "version",
            f"{info.kind} {info.version_text} is too old",
            cause="workers refuse to start: their scripts need newer commands",
            action="upgrade to Redis 7.0, Valkey 7.2 or newer",
        )
    else:
        yield ok("version", f"{info.kind} {info.version_text}")


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
            action="ACL SETUSER NAME +@scripting, or use a server with scripts",
        )
        return
    if not accepted:
        drop_flags()
        yield warn(
            "scripts",
            "script flags are not supported",
            cause="workers cannot claim, retry or finish jobs while memory is full",
            action="keep the memory from filling up, or use Redis or Valkey",
        )


def check_eviction(info: ServerFacts) -> Iterator[Finding]:
    """Check that a full server does not evict jobs."""
    if info.policy == "noeviction":
        yield ok("eviction", "maxmemory-policy is noeviction")
    elif info.policy is not None:
        judge = error if info.max_memory else warn
        yield judge(
            "eviction",
            f"maxmemory-policy is {info.policy}",
            cause="a full server evicts jobs instead of rejecting new ones",
            action=f"{_config_set(info)} maxmemory-policy noeviction (and in redis.conf)",
        )


def check_persistence(info: ServerFacts) -> Iterator[Finding]:
    """Check that a restart of the server keeps the jobs."""
    if info.aof is False and info.rdb is False:
        yield error(
            "persistence",
            "neither AOF nor RDB is on",
            cause="a restart of the server loses all jobs",
            action=f"{_config_set(info)} appendonly yes (and in redis.conf)",
        )


def check_full(info: ServerFacts) -> Iterator[Finding]:
    """Check whether memory is full. Workers start nevertheless: running jobs frees memory."""
    if info.max_memory and info.used_memory is not None and info.used_memory >= info.max_memory:
        yield error(
            "memory",
            f"out of memory ({_size(info.used_memory)} of {_size(info.max_memory)} used)",
            cause="pushes fail with QueueFull until workers have finished jobs",
            action=_MAKE_ROOM,
        )


def check_forbidden(info: ServerFacts) -> Iterator[Finding]:
    """Name the facts that this user may not read, or that the server does not report (rule 21)."""
    facts = {
        "version": info.version,
        "role": info.role,
        "maxmemory-policy": info.policy,
        "AOF": info.aof,
        "RDB": info.rdb,
        "memory": info.used_memory,
    }
    unknown = ", ".join(what for what, value in facts.items() if value is None)
    if unknown:
        refused = f"this user may not call {', '.join(info.forbidden)}"
        reason = refused if info.forbidden else "the server does not report everything"
        yield warn(
            "unknown",
            f"{reason}, so these were not checked: {unknown}",
            cause="a server that can lose jobs would not be noticed",
            action="ACL SETUSER NAME +info +config|get, or check these settings of the server yourself",
        )


BOOT_CHECKS: tuple[Callable[[ServerFacts], Iterator[Finding]], ...] = (
    check_role,
    check_version,
    check_eviction,
    check_persistence,
    check_full,
    check_forbidden,
)


# -------------------------------------------------------------------------------------------- only the doctor's checks
def check_evicted(info: ServerFacts) -> Iterator[Finding]:
    """Check that no keys were evicted."""
    if info.evicted:
        yield error(
            "eviction",
            f"the server has evicted {info.evicted} keys since its start, because its memory was full",
            cause="whole queues may be lost",
            action=f"{_config_set(info)} maxmemory-policy noeviction, and add memory",
        )


def check_durability(info: ServerFacts) -> Iterator[Finding]:
    """Check that a crash of the server keeps the latest jobs."""
    if info.rdb and info.aof is False:
        yield warn(
            "persistence",
            "only snapshots (RDB) are written",
            cause="a crash loses jobs pushed since the last snapshot, and jobs finished since then run again",
            action=f"{_config_set(info)} appendonly yes (and in redis.conf)",
        )
    elif info.aof and info.fsync == "no":
        yield warn(
            "persistence",
            "the operating system decides when to flush the append-only file (appendfsync no)",
            cause="a power loss loses up to half a minute of jobs",
            action=f"{_config_set(info)} appendfsync everysec (and in redis.conf)",
        )
    elif info.aof:
        yield ok("persistence", "the append-only file is on")


def check_saves(info: ServerFacts) -> Iterator[Finding]:
    """Check that the last write to disk succeeded."""
    if info.failed_saves:
        yield error(
            "saves",
            f"the last write to disk failed ({', '.join(info.failed_saves)})",
            cause="the server may refuse all writes, and a restart loses unsaved data",
            action="check the server's log and the free space on its disk",
        )


def check_memory(info: ServerFacts) -> Iterator[Finding]:
    """Check how full the memory is, below its limit."""
    if info.used_memory is None:
        return
    used = _size(info.used_memory)
    if not info.max_memory:
        yield ok("memory", f"{used} used, no limit")
        return
    share = info.used_memory / info.max_memory
    what = f"{used} of {_size(info.max_memory)} used ({share:.0%})"
    judge = _judge(share, FULL_WARN, FULL_ERROR)
    if judge is None:
        yield ok("memory", what)
    elif share < 1:
        yield judge(
            "memory",
            what,
            cause="if the memory is full, pushes fail with QueueFull until workers have finished jobs",
            action=_MAKE_ROOM,
        )


def check_clients(info: ServerFacts) -> Iterator[Finding]:
    """Check the number of connections."""
    if not info.connected_clients or not info.max_clients:
        return
    judge = _judge(info.connected_clients / info.max_clients, FULL_WARN, FULL_ERROR)
    if judge is not None:
        yield judge(
            "clients",
            f"{info.connected_clients} of {info.max_clients} connections are open",
            cause="at the limit the server rejects new workers and clients",
            action="raise maxclients, or lower redis.client_pool_size and the concurrency",
        )


def check_latency(clock: Comparison) -> Iterator[Finding]:
    """Check the round trip from here."""
    what = f"a round trip takes {clock.round_trip_seconds * 1000:.2f} ms"
    judge = _judge(clock.round_trip_seconds, SLOW_WARN_SECONDS, SLOW_ERROR_SECONDS)
    if judge is None:
        yield ok("latency", what)
    else:
        yield judge(
            "latency",
            f"{what} from here",
            cause="each push needs one round trip, and each job two",
            action="run clients and workers close to the server; check redis-cli --latency and SLOWLOG GET",
        )


def check_clock(clock: Comparison) -> Iterator[Finding]:
    """Compare the clocks of this host and the server."""
    ahead = clock.ahead_seconds
    judge = _judge(abs(ahead), DRIFT_WARN_SECONDS, DRIFT_ERROR_SECONDS)
    if judge is None:
        yield ok("clock", "the clocks of this host and the server agree")
    else:
        yield judge(
            "clock",
            f"this host's clock is {abs(ahead):.1f} s {'behind' if ahead > 0 else 'ahead of'} the server's",
            cause="jobs scheduled on this host are due at the wrong time, and latencies are wrong",
            action="synchronize the clocks: timedatectl set-ntp true",
        )


def check_replicas(info: ServerFacts) -> Iterator[Finding]:
    """Check that enough replicas are connected for writes."""
    if info.least_replicas and (info.good_replicas or 0) < info.least_replicas:
        yield error(
            "replicas",
            f"{info.good_replicas or 0} of at least {info.least_replicas} replicas are in sync",
            cause="the server rejects all writes (NOREPLICAS) until enough replicas are in sync",
            action=f"repair the replicas, or {_config_set(info)} min-replicas-to-write 0",
        )


SERVER_CHECKS = (
    *BOOT_CHECKS,
    check_evicted,
    check_durability,
    check_saves,
    check_memory,
    check_clients,
    check_replicas,
)
CLOCK_CHECKS = (check_latency, check_clock)


def _config_set(info: ServerFacts) -> str:
    """The command that changes a setting: of the server, or of every node of a Cluster."""
    is_cluster = info.cluster and info.mode != "standalone"
    every_node = f"--cluster call {info.cluster.rpartition(' ')[2]} " if is_cluster else ""
    return f"redis-cli {every_node}CONFIG SET"


def _size(amount: int) -> str:
    return f"{amount // MEGABYTE} MB" if amount >= MEGABYTE else counted(amount, "byte")


def _judge(value: float, warn_from: float, error_from: float) -> Callable[..., Finding] | None:
    if value >= error_from:
        return error
    return warn if value >= warn_from else None


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
            action=f"set redis.wire_version = {oldest}",
        )
    for identity, major in majors.items():
        if major is not None and major < written:
            yield error(
                "wire version",
                f"{identity} is Sidekiq {rubys[identity] or '6 or older'}, but wire_version is {written}",
                cause="it cannot read times and backtraces in that format",
                action=f"set redis.wire_version = {major}, or upgrade Sidekiq",
            )


def _major(version: str) -> int | None:
    """Return the wire version of a version of Sidekiq; None if unknown."""
    major = version.partition(".")[0] or "6"
    return int(major) if major in {"6", "7", "8"} else None
