"""Check the server: version, role, persistence, memory, connections, latency, clock and replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from offsider.core.wording import counted
from offsider.inspector.doctor.finding import Finding, error, ok, warn
from offsider.storage.server_health import ServerHealth
from offsider.storage.server_info import OLDEST, ServerInfo

FULL_WARN, FULL_ERROR = 0.8, 0.95
SLOW_WARN_SECONDS, SLOW_ERROR_SECONDS = 0.01, 0.05
DRIFT_WARN_SECONDS, DRIFT_ERROR_SECONDS = 1.0, 30.0
MEGABYTE = 1_000_000


def check_version(info: ServerInfo, _: ServerHealth) -> Iterator[Finding]:
    """Check that the server is supported and new enough."""
    oldest = OLDEST.get(info.kind or "")
    if info.version is None or oldest is None:
        yield _unknown("version", "the type or version of the server")
    elif info.version < oldest:
        yield error(
            "version",
            f"{info.kind} {info.version_text} is too old",
            why="workers refuse to start: their scripts need newer commands",
            fix="upgrade to Redis 7.0, Valkey 7.2 or newer",
        )
    else:
        yield ok("version", f"{info.kind} {info.version_text}")


def check_role(info: ServerInfo, _: ServerHealth) -> Iterator[Finding]:
    """Check that the server is a standalone master."""
    if info.mode == "cluster":
        yield error(
            "role",
            "the server is a Cluster",
            why="scripts need keys of several nodes, so workers refuse to start",
            fix="use a standalone server, or Sentinel",
        )
    if info.role == "replica":
        yield error(
            "role",
            "the server is a read-only replica",
            why="clients cannot push, and workers cannot claim or finish jobs",
            fix="set redis.url to the master, or set redis.sentinels",
        )


def check_eviction(info: ServerInfo, server_health: ServerHealth) -> Iterator[Finding]:
    """Check that a full server does not evict jobs."""
    if info.policy is None:
        yield _unknown("eviction", "maxmemory-policy")
        return
    if server_health.evicted:
        yield error(
            "eviction",
            f"the server has evicted {server_health.evicted} keys since its start, because its memory was full",
            why="whole queues may be lost",
            fix="redis-cli CONFIG SET maxmemory-policy noeviction, and add memory",
        )
    if info.policy == "noeviction":
        yield ok("eviction", "maxmemory-policy is noeviction")
        return
    judge = error if info.max_memory else warn
    yield judge(
        "eviction",
        f"maxmemory-policy is {info.policy}",
        why="a full server evicts jobs instead of rejecting new ones",
        fix="redis-cli CONFIG SET maxmemory-policy noeviction (and in redis.conf)",
    )


def check_persistence(info: ServerInfo, server_health: ServerHealth) -> Iterator[Finding]:
    """Check that a restart of the server keeps the jobs."""
    if info.aof is None:
        yield _unknown("persistence", "the persistence of the server")
    elif not info.aof and not info.rdb:
        yield error(
            "persistence",
            "neither AOF nor RDB is on",
            why="a restart of the server loses all jobs",
            fix="redis-cli CONFIG SET appendonly yes (and in redis.conf)",
        )
    elif not info.aof:
        yield warn(
            "persistence",
            "only snapshots (RDB) are written",
            why="a crash loses jobs pushed since the last snapshot, and jobs finished since then run again",
            fix="redis-cli CONFIG SET appendonly yes (and in redis.conf)",
        )
    elif server_health.fsync == "no":
        yield warn(
            "persistence",
            "the operating system decides when to flush the append-only file (appendfsync no)",
            why="a power loss loses up to half a minute of jobs",
            fix="redis-cli CONFIG SET appendfsync everysec (and in redis.conf)",
        )
    else:
        yield ok("persistence", "the append-only file is on")


def check_saves(_: ServerInfo, server_health: ServerHealth) -> Iterator[Finding]:
    """Check that the last write to disk succeeded."""
    if server_health.failed_saves:
        yield error(
            "saves",
            f"the last write to disk failed ({', '.join(server_health.failed_saves)})",
            why="the server may refuse all writes, and a restart loses unsaved data",
            fix="check the server's log and the free space on its disk",
        )


def check_memory(info: ServerInfo, _: ServerHealth) -> Iterator[Finding]:
    """Check how full the memory is."""
    if info.used_memory is None:
        yield _unknown("memory", "the memory use")
        return
    used = _size(info.used_memory)
    if not info.max_memory:
        yield ok("memory", f"{used} used, no limit")
        return
    share = info.used_memory / info.max_memory
    what = f"{used} of {_size(info.max_memory)} used ({f'{share:.0%}' if share <= 1 else 'over the limit'})"
    judge = _judge(share, FULL_WARN, FULL_ERROR)
    if judge is None:
        yield ok("memory", what)
    else:
        yield judge(
            "memory",
            what,
            why="if the memory is full, pushes fail with QueueFull until workers have finished jobs",
            fix="raise maxmemory, add workers, or find out what fills it: offsider queues, and the page Quarantine",
        )


def check_clients(_: ServerInfo, server_health: ServerHealth) -> Iterator[Finding]:
    """Check the number of connections."""
    if not server_health.clients or not server_health.max_clients:
        return
    judge = _judge(server_health.clients / server_health.max_clients, FULL_WARN, FULL_ERROR)
    if judge is not None:
        yield judge(
            "clients",
            f"{server_health.clients} of {server_health.max_clients} connections are open",
            why="at the limit the server rejects new workers and clients",
            fix="raise maxclients, or lower redis.client_pool_size and the concurrency",
        )


def check_latency(_: ServerInfo, server_health: ServerHealth) -> Iterator[Finding]:
    """Check the round trip from here."""
    what = f"a round trip takes {server_health.round_trip_seconds * 1000:.2f} ms"
    judge = _judge(server_health.round_trip_seconds, SLOW_WARN_SECONDS, SLOW_ERROR_SECONDS)
    if judge is None:
        yield ok("latency", what)
    else:
        yield judge(
            "latency",
            f"{what} from here",
            why="each push needs one round trip, and each job two",
            fix="run clients and workers close to the server; check redis-cli --latency and SLOWLOG GET",
        )


def check_clock(_: ServerInfo, server_health: ServerHealth) -> Iterator[Finding]:
    """Compare the clocks of this host and the server."""
    ahead = server_health.clock_ahead_seconds
    judge = _judge(abs(ahead), DRIFT_WARN_SECONDS, DRIFT_ERROR_SECONDS)
    if judge is None:
        yield ok("clock", "the clocks of this host and the server agree")
    else:
        yield judge(
            "clock",
            f"this host's clock is {abs(ahead):.1f} s {'behind' if ahead > 0 else 'ahead of'} the server's",
            why="jobs scheduled on this host are due at the wrong time, and latencies are wrong",
            fix="synchronize the clocks: timedatectl set-ntp true",
        )


def check_replicas(_: ServerInfo, server_health: ServerHealth) -> Iterator[Finding]:
    """Check that enough replicas are connected for writes."""
    if server_health.least_replicas and (server_health.good_replicas or 0) < server_health.least_replicas:
        yield error(
            "replicas",
            f"{server_health.good_replicas or 0} of at least {server_health.least_replicas} replicas are in sync",
            why="the server rejects all writes (NOREPLICAS) until enough replicas are in sync",
            fix="repair the replicas, or redis-cli CONFIG SET min-replicas-to-write 0",
        )


SERVER_CHECKS: tuple[Callable[[ServerInfo, ServerHealth], Iterator[Finding]], ...] = (
    check_version,
    check_role,
    check_eviction,
    check_persistence,
    check_saves,
    check_memory,
    check_clients,
    check_latency,
    check_clock,
    check_replicas,
)


def _unknown(check: str, what: str) -> Finding:
    return warn(
        check,
        f"{what} is unknown",
        why="the ACL does not allow this user to read it, so it cannot be checked",
        fix="allow it: ACL SETUSER NAME +info +config|get",
    )


def _size(amount: int) -> str:
    return f"{amount // MEGABYTE} MB" if amount >= MEGABYTE else counted(amount, "byte")


def _judge(value: float, warn_from: float, error_from: float) -> Callable[..., Finding] | None:
    if value >= error_from:
        return error
    return warn if value >= warn_from else None
