"""Facts about the server for display, and its memory by family of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage import clocks
from offsider.storage.keyspace import KeyFamily, by_family
from offsider.storage.server_info import server_info


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Facts that a Redis or Valkey server reports. Unknown facts are None, or empty for texts.

    Attributes:
        store: ``"redis"``, ``"valkey"`` or ``"dragonfly"``.
        version: version of the server.
        uptime_days: whole days since its start.
        connected_clients: number of open connections.
        used_memory_bytes, used_memory_peak_bytes: current memory use, and the peak since its start.
        max_memory_bytes: memory limit; 0 for no limit.
        policy: eviction policy; only ``noeviction`` is safe for jobs.
        persistence: persistence modes: ``"aof"``, ``"rdb"``, ``"aof, rdb"`` or ``"none"``.
        role: ``"master"`` or ``"replica"``.
        clock_drift_seconds: difference between its clock and this host's; negative if its clock is behind.
        round_trip_seconds: duration of one round trip.
        url: its URL without the password.
        raw: the fields of its reply to INFO, as text.
    """

    store: str
    version: str
    uptime_days: int | None
    connected_clients: int | None
    used_memory_bytes: int | None
    used_memory_peak_bytes: int | None
    max_memory_bytes: int | None
    policy: str
    persistence: str
    role: str
    clock_drift_seconds: float
    round_trip_seconds: float
    url: str
    raw: Mapping[str, str]

    @classmethod
    def read(cls, config: Config | Installation | None = None) -> ServerInfo:
        """Query the server. Raises RedisUnavailable if it does not respond."""
        server = Installation.of(config)
        redis = server.redis
        info = server_info(redis)
        clock = clocks.compare(redis, server.config.clock)
        return cls(
            store=info.kind or "",
            version=info.version_text,
            uptime_days=info.uptime_days,
            connected_clients=info.connected_clients,
            used_memory_bytes=info.used_memory,
            used_memory_peak_bytes=info.used_memory_peak,
            max_memory_bytes=info.max_memory,
            policy=info.policy or "",
            persistence=_persistence(aof=info.aof, rdb=info.rdb),
            role=info.role or "",
            clock_drift_seconds=clock.ahead_seconds,
            round_trip_seconds=clock.round_trip_seconds,
            url=redis.settings.redacted_url,
            raw=info.fields,
        )


def _persistence(*, aof: bool | None, rdb: bool | None) -> str:
    written = [name for name, on in (("aof", aof), ("rdb", rdb)) if on]
    if written:
        return ", ".join(written)
    return "" if aof is None or rdb is None else "none"


def memory_by_family(server: Installation, budget_seconds: float = 10.0) -> tuple[list[KeyFamily], bool]:
    """Scan the names of all keys, the largest family first; False if the time ran out before the end.

    Raises:
        RedisFailure: the server is unreachable, or forbids SCAN.
    """
    return by_family(server.redis, budget_seconds)
