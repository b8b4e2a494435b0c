"""Version, role, configuration, health and clock of a server, as far as the ACL of this user allows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage import clocks
from offsider.storage.keyspace import KeyFamily, by_family
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command
from offsider.storage.server_version import hello_fields, info_fields, kind_of, text, version_of

_CONFIGURED = ("save", "appendfsync", "min-replicas-to-write")
_QUESTIONS: tuple[Command, ...] = (("HELLO",), ("INFO",), *(("CONFIG", "GET", name) for name in _CONFIGURED))
#: A refused question is an entry of the server's ACL log, so it is repeated after this time.
REFUSED_SECONDS = 3_600.0
#: Fields of INFO by type of save.
_SAVES = {"rdb": "rdb_last_bgsave_status", "aof": "aof_last_write_status", "aof rewrite": "aof_last_bgrewrite_status"}


class Refusals(dict[Command, float]):
    """Refused questions, and when to repeat each, by the monotonic clock."""


@dataclass(frozen=True, kw_only=True)
class ServerInfo:
    """Facts that a Redis or Valkey server reports. Unknown facts are None, or empty for texts and tuples.

    Attributes:
        store: ``"redis"``, ``"valkey"`` or ``"dragonfly"``.
        version_info: version of that kind: ``(7, 0, 15)``.
        mode: ``"standalone"``, ``"cluster"`` or ``"sentinel"``.
        role: ``"master"`` or ``"replica"``.
        policy: eviction policy, ``maxmemory-policy``; only ``noeviction`` is safe for jobs.
        aof: whether the append-only file is enabled.
        rdb: whether snapshots are enabled.
        uptime_days: whole days since its start.
        connected_clients, max_clients: number of open connections, and their limit.
        used_memory_bytes, used_memory_peak_bytes: current memory use, and the peak since its start.
        max_memory_bytes: memory limit; 0 for no limit.
        evicted: number of keys evicted since the start, because memory was full.
        failed_saves: types of saves that failed last time: ``"rdb"``, ``"aof"``, ``"aof rewrite"``.
        fsync: flush policy of the append-only file: ``appendfsync``.
        good_replicas: replicas with little lag; only reported if ``min-replicas-to-write`` is set.
        least_replicas: minimum number of good replicas for writes: ``min-replicas-to-write``.
        cluster: hash tag, slot and primary in a Cluster; empty if the URL is not that of a Cluster.
        forbidden: questions that the ACL did not allow.
        clock_drift_seconds: difference between its clock and this host's; negative if its clock is behind.
        round_trip_seconds: duration of one round trip.
        url: its URL without the password.
        raw: the fields of its replies to HELLO and INFO, as text.
    """

    store: str = ""
    version_info: tuple[int, ...] = ()
    mode: str = ""
    role: str = ""
    policy: str = ""
    aof: bool | None = None
    rdb: bool | None = None
    uptime_days: int | None = None
    connected_clients: int | None = None
    max_clients: int | None = None
    used_memory_bytes: int | None = None
    used_memory_peak_bytes: int | None = None
    max_memory_bytes: int | None = None
    evicted: int | None = None
    failed_saves: tuple[str, ...] = ()
    fsync: str = ""
    good_replicas: int | None = None
    least_replicas: int | None = None
    cluster: str = ""
    forbidden: tuple[str, ...] = ()
    clock_drift_seconds: float = field(default=0.0, compare=False)
    round_trip_seconds: float = field(default=0.0, compare=False)
    url: str = field(default="", compare=False)
    raw: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)

    @classmethod
    def read(cls, config: Config | Installation | None = None) -> ServerInfo:
        """Query the server and compare its clock. Raises RedisUnavailable if it does not respond."""
        server = Installation.of(config)
        info, clock = cls.ask(server.redis), clocks.compare(server.redis, server.config.clock)
        return replace(info, clock_drift_seconds=clock.ahead_seconds, round_trip_seconds=clock.round_trip_seconds)

    @classmethod
    def ask(cls, redis: Redis, refusals: Refusals | None = None) -> ServerInfo:
        """Query the server of a connection, in one round trip, without its clock.

        Args:
            refusals: of earlier calls; new ones are added.

        Every user may run HELLO, which returns version, mode and role. INFO and CONFIG are ``@dangerous``: an ACL can
        forbid them, and hosted services can lack them.

        Raises:
            RedisUnavailable: the server cannot be reached.
            RedisRefused: the login was refused.
        """
        refusals, now = Refusals() if refusals is None else refusals, time.monotonic()
        asked = [each for each in _QUESTIONS if refusals.get(each, now) <= now]
        replies = dict(zip(asked, redis.pipeline(asked, raise_errors=False), strict=True))
        for reply in replies.values():
            if isinstance(reply, RedisRefused) and reply.code in {"NOAUTH", "WRONGPASS"}:
                raise reply
        failed = (each for each, reply in replies.items() if isinstance(reply, OffsiderError))
        refusals.update(dict.fromkeys(failed, now + REFUSED_SECONDS))
        refused = (each[0] for each in _QUESTIONS if refusals.get(each, now) > now)
        hello, info, *configured = map(replies.get, _QUESTIONS)
        fields = hello_fields(hello) | info_fields(info)
        save, fsync, least_replicas = map(_setting, configured)
        return cls(
            store=kind_of(fields),
            version_info=version_of(fields),
            mode=fields.get("redis_mode") or fields.get("mode", ""),
            role=_role(fields),
            policy=fields.get("maxmemory_policy", ""),
            aof=_flag(fields.get("aof_enabled")),
            rdb=None if save is None else bool(save),
            uptime_days=_number(fields.get("uptime_in_days")),
            connected_clients=_number(fields.get("connected_clients")),
            max_clients=_number(fields.get("maxclients")),
            used_memory_bytes=_number(fields.get("used_memory")),
            used_memory_peak_bytes=_number(fields.get("used_memory_peak")),
            max_memory_bytes=_number(fields.get("maxmemory")),
            evicted=_number(fields.get("evicted_keys")),
            failed_saves=tuple(name for name, status in _SAVES.items() if fields.get(status) == "err"),
            fsync=fsync or "",
            good_replicas=_number(fields.get("min_slaves_good_slaves")),
            least_replicas=_number(least_replicas),
            cluster=redis.cluster_place,
            forbidden=tuple(dict.fromkeys(map(str, refused))),
            url=redis.settings.redacted_url,
            raw=fields,
        )

    @property
    def version(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version_info))

    @property
    def persistence(self) -> str:
        """Persistence modes: ``"aof"``, ``"rdb"``, ``"aof, rdb"`` or ``"none"``."""
        written = [name for name, on in (("aof", self.aof), ("rdb", self.rdb)) if on]
        return ", ".join(written) or ("" if self.aof is None or self.rdb is None else "none")


def _role(fields: dict[str, str]) -> str:
    role = fields.get("role", "")
    return "replica" if role == "slave" else role


def _flag(value: str | None) -> bool | None:
    return None if value is None else value == "1"


def _setting(reply: Any) -> str | None:
    """Return the value in the reply to CONFIG GET: name and value, or nothing."""
    pair = cast("Sequence[object]", reply) if isinstance(reply, list) else ()
    return text(pair[1]) if len(pair) == 2 else None


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None


def memory_by_family(server: Installation, budget_seconds: float = 10.0) -> tuple[list[KeyFamily], bool]:
    """Scan the names of all keys, the largest family first; False if the time ran out before the end.

    Raises:
        RedisFailure: the server is unreachable, or forbids SCAN.
    """
    return by_family(server.redis, budget_seconds)
