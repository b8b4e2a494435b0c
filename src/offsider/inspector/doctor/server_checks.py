"""The server: is it one that keeps jobs, and does it do well?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from offsider.core.wording import counted
from offsider.inspector.doctor.finding import Finding, bad, ok, warn
from offsider.storage.server_info import OLDEST, ServerInfo
from offsider.storage.vitals import Vitals

FULL_WARN, FULL_BAD = 0.8, 0.95
SLOW_WARN_SECONDS, SLOW_BAD_SECONDS = 0.01, 0.05
DRIFT_WARN_SECONDS, DRIFT_BAD_SECONDS = 1.0, 30.0
MEGABYTE = 1_000_000


def check_version(info: ServerInfo, _: Vitals) -> Iterator[Finding]:
    """Is it new enough, and of a kind that carries jobs?"""
    oldest = OLDEST.get(info.kind or "")
    if info.version is None or oldest is None:
        yield _unknown("version", "which server this is")
    elif info.version < oldest:
        yield bad(
            "version",
            f"{info.kind} {info.version_text} is too old",
            why="workers refuse to start: their scripts need newer commands",
            way_out="upgrade to Redis 7.0, Valkey 7.2 or newer",
        )
    else:
        yield ok("version", f"{info.kind} {info.version_text}")


def check_role(info: ServerInfo, _: Vitals) -> Iterator[Finding]:
    """Does it take writes, and is it one server?"""
    if info.mode == "cluster":
        yield bad(
            "role",
            "the server is a Cluster",
            why="one script would need keys of several nodes, so workers refuse to start",
            way_out="use a standalone server, or Sentinel",
        )
    if info.role == "replica":
        yield bad(
            "role",
            "the server is a read-only replica",
            why="nothing can be pushed, taken or finished there",
            way_out="let redis.url name the master, or set redis.sentinels",
        )


def check_eviction(info: ServerInfo, vitals: Vitals) -> Iterator[Finding]:
    """Does it throw jobs away?"""
    if info.policy is None:
        yield _unknown("eviction", "maxmemory-policy")
        return
    if vitals.evicted:
        yield bad(
            "eviction",
            f"{vitals.evicted} keys were thrown away for want of memory since the server started",
            why="whole queues may be among them",
            way_out="redis-cli CONFIG SET maxmemory-policy noeviction, and give it more memory",
        )
    if info.policy == "noeviction":
        yield ok("eviction", "maxmemory-policy is noeviction")
        return
    judge = bad if info.max_memory else warn
    yield judge(
        "eviction",
        f"maxmemory-policy is {info.policy}",
        why="a full server throws jobs away instead of refusing new ones",
        way_out="redis-cli CONFIG SET maxmemory-policy noeviction (and in redis.conf)",
    )


def check_persistence(info: ServerInfo, vitals: Vitals) -> Iterator[Finding]:
    """What does a restart of the server lose?"""
    if info.aof is None:
        yield _unknown("persistence", "whether jobs are kept on disk")
    elif not info.aof and not info.rdb:
        yield bad(
            "persistence",
            "neither AOF nor RDB is on",
            why="a restart of the server loses all jobs",
            way_out="redis-cli CONFIG SET appendonly yes (and in redis.conf)",
        )
    elif not info.aof:
        yield warn(
            "persistence",
            "only snapshots (RDB) are written",
            why="a crash of the server loses what came after the last one, and runs again what was finished since",
            way_out="redis-cli CONFIG SET appendonly yes (and in redis.conf)",
        )
    elif vitals.fsync == "no":
        yield warn(
            "persistence",
            "the append-only file is flushed when the system likes (appendfsync no)",
            why="a power loss loses up to half a minute of jobs",
            way_out="redis-cli CONFIG SET appendfsync everysec (and in redis.conf)",
        )
    else:
        yield ok("persistence", "the append-only file is on")


def check_saves(_: ServerInfo, vitals: Vitals) -> Iterator[Finding]:
    """Did it manage to write the last time?"""
    if vitals.failed_saves:
        yield bad(
            "saves",
            f"the last write to disk failed ({', '.join(vitals.failed_saves)})",
            why="the server may refuse all writes, and a restart loses what was not written",
            way_out="look at the server's log and at the free space of its disk",
        )


def check_memory(info: ServerInfo, _: Vitals) -> Iterator[Finding]:
    """How near is the server to refusing pushes?"""
    if info.used_memory is None:
        yield _unknown("memory", "the use of memory")
        return
    used = _size(info.used_memory)
    if not info.max_memory:
        yield ok("memory", f"{used} used, no limit")
        return
    share = info.used_memory / info.max_memory
    what = f"{used} of {_size(info.max_memory)} used ({f'{share:.0%}' if share <= 1 else 'over the limit'})"
    judge = _judge(share, FULL_WARN, FULL_BAD)
    if judge is None:
        yield ok("memory", what)
    else:
        yield judge(
            "memory",
            what,
            why="when it is full, pushes fail with QueueFull until workers have made room",
            way_out="raise maxmemory, add workers, or see what fills it: offsider queues, and the page Quarantine",
        )


def check_clients(_: ServerInfo, vitals: Vitals) -> Iterator[Finding]:
    """Can more programs connect?"""
    if not vitals.clients or not vitals.max_clients:
        return
    judge = _judge(vitals.clients / vitals.max_clients, FULL_WARN, FULL_BAD)
    if judge is not None:
        yield judge(
            "clients",
            f"{vitals.clients} of {vitals.max_clients} connections are open",
            why="when all are, new workers and clients are refused",
            way_out="raise maxclients, or lower redis.client_pool_size and the concurrency",
        )


def check_latency(_: ServerInfo, vitals: Vitals) -> Iterator[Finding]:
    """How far away is it?"""
    what = f"a round trip takes {vitals.round_trip_seconds * 1000:.2f} ms"
    judge = _judge(vitals.round_trip_seconds, SLOW_WARN_SECONDS, SLOW_BAD_SECONDS)
    if judge is None:
        yield ok("latency", what)
    else:
        yield judge(
            "latency",
            f"{what} from here",
            why="every push waits for it, and every job twice",
            way_out="run clients and workers near the server; redis-cli --latency, SLOWLOG GET",
        )


def check_clock(_: ServerInfo, vitals: Vitals) -> Iterator[Finding]:
    """Do this machine and the server agree on the time?"""
    ahead = vitals.clock_ahead_seconds
    judge = _judge(abs(ahead), DRIFT_WARN_SECONDS, DRIFT_BAD_SECONDS)
    if judge is None:
        yield ok("clock", "this machine and the server agree on the time")
    else:
        yield judge(
            "clock",
            f"this machine's clock is {abs(ahead):.1f} s {'behind' if ahead > 0 else 'ahead of'} the server's",
            why="jobs scheduled from here are due at the wrong time, and latencies are wrong",
            way_out="synchronise the clocks: timedatectl set-ntp true",
        )


def check_replicas(_: ServerInfo, vitals: Vitals) -> Iterator[Finding]:
    """Does it wait for replicas that are not there?"""
    if vitals.least_replicas and (vitals.good_replicas or 0) < vitals.least_replicas:
        yield bad(
            "replicas",
            f"{vitals.good_replicas or 0} of at least {vitals.least_replicas} replicas keep up",
            why="the server refuses all writes (NOREPLICAS) until they do",
            way_out="mend the replicas, or redis-cli CONFIG SET min-replicas-to-write 0",
        )


SERVER_CHECKS: tuple[Callable[[ServerInfo, Vitals], Iterator[Finding]], ...] = (
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
        why="this user may not ask the server, so nobody looks after it",
        way_out="allow it: ACL SETUSER NAME +info +config|get",
    )


def _size(amount: int) -> str:
    return f"{amount // MEGABYTE} MB" if amount >= MEGABYTE else counted(amount, "byte")


def _judge(value: float, warn_from: float, bad_from: float) -> Callable[..., Finding] | None:
    if value >= bad_from:
        return bad
    return warn if value >= warn_from else None
