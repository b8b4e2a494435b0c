"""Version, role, configuration and health of a server, as far as the ACL of this user allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command
from offsider.storage.server_version import hello_fields, info_fields, kind_of, text, version_of

_CONFIGURED = ("save", "appendfsync", "min-replicas-to-write")
_QUESTIONS: tuple[Command, ...] = (("HELLO",), ("INFO",), *(("CONFIG", "GET", name) for name in _CONFIGURED))
#: Fields of INFO by type of save.
_SAVES = {"rdb": "rdb_last_bgsave_status", "aof": "aof_last_write_status", "aof rewrite": "aof_last_bgrewrite_status"}


@dataclass(frozen=True)
class ServerFacts:
    """A snapshot of the server. Facts that the server does not report are None, or empty if they are several.

    Attributes:
        kind: ``"redis"``, ``"valkey"`` or ``"dragonfly"``.
        version: version of that kind: ``(7, 0, 15)``.
        mode: ``"standalone"``, ``"cluster"`` or ``"sentinel"``.
        role: ``"master"`` or ``"replica"``.
        policy: eviction policy: ``maxmemory-policy``.
        aof: whether the append-only file is enabled.
        rdb: whether snapshots are enabled.
        used_memory: bytes.
        max_memory: bytes; 0 means no limit.
        used_memory_peak: bytes, maximum since the start.
        uptime_days: whole days since the start.
        connected_clients: current number of connections.
        max_clients: maximum number of connections.
        evicted: number of keys evicted since the start, because memory was full.
        failed_saves: types of saves that failed last time: ``"rdb"``, ``"aof"``, ``"aof rewrite"``.
        fsync: flush policy of the append-only file: ``appendfsync``.
        good_replicas: replicas with little lag; only reported if ``min-replicas-to-write`` is set.
        least_replicas: minimum number of good replicas for writes: ``min-replicas-to-write``.
        fields: the server's fields under their own names; empty if every question was refused.
        cluster: hash tag, slot and primary in a Cluster; empty if the URL is not that of a Cluster.
        forbidden: questions that the ACL did not allow.
    """

    kind: str | None = None
    version: tuple[int, ...] | None = None
    mode: str | None = None
    role: str | None = None
    policy: str | None = None
    aof: bool | None = None
    rdb: bool | None = None
    used_memory: int | None = None
    max_memory: int | None = None
    used_memory_peak: int | None = None
    uptime_days: int | None = None
    connected_clients: int | None = None
    max_clients: int | None = None
    evicted: int | None = None
    failed_saves: tuple[str, ...] = ()
    fsync: str | None = None
    good_replicas: int | None = None
    least_replicas: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    cluster: str = ""
    forbidden: tuple[str, ...] = ()

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version or ()))


def server_info(redis: Redis) -> ServerFacts:
    """Read the server's information in one round trip.

    Every user may run HELLO, which returns version, mode and role. INFO and CONFIG are ``@dangerous``: an ACL can
    forbid them, and hosted services can lack them.

    Raises:
        RedisUnavailable: the server cannot be reached.
        RedisRefused: the login was refused.
    """
    replies = redis.pipeline(_QUESTIONS, raise_errors=False)
    for reply in replies:
        if isinstance(reply, RedisRefused) and reply.code in {"NOAUTH", "WRONGPASS"}:
            raise reply
    refused = (question[0] for question, reply in zip(_QUESTIONS, replies, strict=True) if _is_error(reply))
    hello, info, *configured = replies
    fields = hello_fields(hello) | info_fields(info)
    save, fsync, least_replicas = map(_setting, configured)
    return ServerFacts(
        kind=kind_of(fields),
        version=version_of(fields),
        mode=fields.get("redis_mode") or fields.get("mode"),
        role=_role(fields),
        policy=fields.get("maxmemory_policy"),
        aof=_flag(fields.get("aof_enabled")),
        rdb=None if save is None else bool(save),
        used_memory=_number(fields.get("used_memory")),
        max_memory=_number(fields.get("maxmemory")),
        used_memory_peak=_number(fields.get("used_memory_peak")),
        uptime_days=_number(fields.get("uptime_in_days")),
        connected_clients=_number(fields.get("connected_clients")),
        max_clients=_number(fields.get("maxclients")),
        evicted=_number(fields.get("evicted_keys")),
        failed_saves=tuple(name for name, status in _SAVES.items() if fields.get(status) == "err"),
        fsync=fsync,
        good_replicas=_number(fields.get("min_slaves_good_slaves")),
        least_replicas=_number(least_replicas),
        fields=fields,
        cluster=redis.cluster_place,
        forbidden=tuple(dict.fromkeys(map(str, refused))),
    )


def _is_error(reply: Any) -> bool:
    return isinstance(reply, OffsiderError)


def _role(fields: dict[str, str]) -> str | None:
    role = fields.get("role")
    return "replica" if role == "slave" else role


def _flag(value: str | None) -> bool | None:
    return None if value is None else value == "1"


def _setting(reply: Any) -> str | None:
    """Return the value in the reply to CONFIG GET: name and value, or nothing."""
    pair = cast("Sequence[object]", reply) if isinstance(reply, list) else ()
    return text(pair[1]) if len(pair) == 2 else None


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None
