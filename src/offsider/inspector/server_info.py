"""The server as people look at it."""

from __future__ import annotations

from dataclasses import dataclass

from offsider.storage import clocks
from offsider.storage.server_info import server_info
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a Redis or Valkey server says about itself. What it may not tell is None, or empty where that is a text.

    Attributes:
        store: ``"redis"``, ``"valkey"`` or ``"dragonfly"``.
        version: of that.
        uptime_days: whole days since it was started.
        connected_clients: connections now.
        used_memory_bytes, used_memory_peak_bytes: now, and the most since it was started.
        max_memory_bytes: 0 means no limit.
        policy: what it does when memory is full; only ``noeviction`` keeps jobs.
        persistence: what it writes to disk: ``"aof"``, ``"rdb"``, ``"aof, rdb"`` or ``"none"``.
        role: ``"master"`` or ``"replica"``.
        clock_drift_seconds: how far its clock is ahead of this machine's; negative when it is behind.
        round_trip_seconds: there and back, once.
        url: where it is, without the password.
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

    @classmethod
    def read(cls, config: Config | None = None) -> ServerInfo:
        """Ask it now. Raises RedisUnavailable when it does not answer."""
        config = config if config is not None else default_config()
        redis = config.shared_redis()
        told = server_info(redis)
        theirs, took = clocks.look(redis)
        return cls(
            store=told.kind or "",
            version=told.version_text,
            uptime_days=told.uptime_days,
            connected_clients=told.connected_clients,
            used_memory_bytes=told.used_memory,
            used_memory_peak_bytes=told.used_memory_peak,
            max_memory_bytes=told.max_memory,
            policy=told.policy or "",
            persistence=_persistence(aof=told.aof, rdb=told.rdb),
            role=told.role or "",
            clock_drift_seconds=theirs - (config.clock.now() - took / 2),
            round_trip_seconds=took,
            url=redis.settings.redacted_url,
        )


def _persistence(*, aof: bool | None, rdb: bool | None) -> str:
    written = [name for name, on in (("aof", aof), ("rdb", rdb)) if on]
    if written:
        return ", ".join(written)
    return "" if aof is None or rdb is None else "none"
