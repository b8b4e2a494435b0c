"""What a server says about itself, as far as this user may ask; what may not be asked is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: The oldest versions that carry jobs.
OLDEST: Mapping[str, tuple[int, ...]] = {"redis": (7, 0), "valkey": (7, 2), "dragonfly": (1, 27)}

_QUESTIONS: tuple[Command, ...] = (("HELLO",), ("INFO",), ("CONFIG", "GET", "save"))


@dataclass(frozen=True)
class ServerInfo:
    """A server as it was when it was asked. Every field but the last is None when the answer was refused.

    Attributes:
        kind: ``"redis"``, ``"valkey"`` or ``"dragonfly"``.
        version: of that kind, as numbers: ``(7, 0, 15)``.
        mode: ``"standalone"``, ``"cluster"`` or ``"sentinel"``.
        role: ``"master"`` or ``"replica"``.
        policy: what the server does when memory is full: ``maxmemory-policy``.
        aof: whether the append-only file is on.
        rdb: whether snapshots are on.
        used_memory: bytes.
        max_memory: bytes; 0 means no limit.
        used_memory_peak: bytes, the most since the start.
        uptime_days: whole days since the start.
        connected_clients: connections now.
        forbidden: the questions that the ACL did not allow.
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
    forbidden: tuple[str, ...] = ()

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version or ()))


def server_info(redis: Redis) -> ServerInfo:
    """Ask the server about itself, in one round trip.

    HELLO is allowed to every user and tells version, mode and role; INFO and CONFIG are ``@dangerous`` and may be
    refused by an ACL or not exist at a hosted service.

    Raises:
        RedisUnavailable: it cannot be reached.
        RedisRefused: the login was refused.
    """
    hello, info, save = redis.pipeline(_QUESTIONS, raise_errors=False)
    for reply in (hello, info, save):
        if isinstance(reply, RedisRefused) and reply.code in {"NOAUTH", "WRONGPASS"}:
            raise reply
    told = _hello_fields(hello) | _info_fields(info)
    return ServerInfo(
        kind=_kind(told),
        version=_version(told),
        mode=told.get("redis_mode") or told.get("mode"),
        role=_role(told),
        policy=told.get("maxmemory_policy"),
        aof=_flag(told.get("aof_enabled")),
        rdb=_saves(save),
        used_memory=_number(told.get("used_memory")),
        max_memory=_number(told.get("maxmemory")),
        used_memory_peak=_number(told.get("used_memory_peak")),
        uptime_days=_number(told.get("uptime_in_days")),
        connected_clients=_number(told.get("connected_clients")),
        forbidden=tuple(
            str(question[0])
            for question, reply in zip(_QUESTIONS, (hello, info, save), strict=True)
            if isinstance(reply, OffsiderError)
        ),
    )


def _hello_fields(reply: Any) -> dict[str, str]:
    if not isinstance(reply, list):
        return {}
    flat = cast("Sequence[object]", reply)
    pairs = zip(flat[::2], flat[1::2], strict=False)
    return {_text(name): _text(value) for name, value in pairs if isinstance(value, bytes)}


def _info_fields(reply: Any) -> dict[str, str]:
    if not isinstance(reply, bytes):
        return {}
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _kind(told: dict[str, str]) -> str | None:
    for kind in ("valkey", "dragonfly"):
        if f"{kind}_version" in told or told.get("server") == kind:
            return kind
    return "redis" if "redis_version" in told or "version" in told else None


def _version(told: dict[str, str]) -> tuple[int, ...] | None:
    # The others also tell a redis_version, the one whose behaviour they follow; their own comes first.
    for name in ("valkey_version", "dragonfly_version", "redis_version", "version"):
        if name in told:
            digits = told[name].rpartition("v")[2].split("-")[0].split(".")
            return tuple(int(part) for part in digits if part.isdigit())
    return None


def _role(told: dict[str, str]) -> str | None:
    role = told.get("role")
    return "replica" if role == "slave" else role


def _flag(value: str | None) -> bool | None:
    return None if value is None else value == "1"


def _saves(reply: Any) -> bool | None:
    if not isinstance(reply, list):
        return None
    pair = cast("Sequence[object]", reply)
    return len(pair) == 2 and bool(pair[1])  # name and value


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
