"""The supported versions, and the kind and version that a server reports."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

logger = logging.getLogger("offsider")

#: Oldest supported versions.
MIN_VERSIONS: Mapping[str, tuple[int, ...]] = {"redis": (7, 0), "valkey": (7, 2), "dragonfly": (1, 27)}
_warned: set[str] = set()


#: Command whose reply names the version of a server that refuses HELLO, which Redis before 6.0 does not know.
VERSION_QUESTION = ("INFO", "server")


def warn_if_too_old(reply: Any, server: str) -> None:
    """Log a warning, once per server, if its reply to HELLO or INFO names a version that workers refuse."""
    fields = hello_fields(reply) | info_fields(reply)
    kind, version = kind_of(fields), version_of(fields)
    if is_too_old(kind, version) and server not in _warned:
        _warned.add(server)
        logger.warning(
            "%s is %s %s, which workers refuse: upgrade to Redis 7.0, Valkey 7.2 or newer",
            server,
            kind,
            ".".join(map(str, version)),
        )


def is_too_old(kind: str, version: tuple[int, ...]) -> bool:
    """Whether workers refuse a version; False for an unknown kind or version."""
    return bool(version) and version < MIN_VERSIONS.get(kind, ())


def hello_fields(reply: Any) -> dict[str, str]:
    """Return the fields of a reply to HELLO; none of an error reply."""
    if not isinstance(reply, list):
        return {}
    flat = cast("Sequence[object]", reply)
    pairs = zip(flat[::2], flat[1::2], strict=False)
    return {text(name): text(value) for name, value in pairs if isinstance(value, bytes)}


def info_fields(reply: Any) -> dict[str, str]:
    """Return the fields of a reply to INFO; none of an error reply."""
    if not isinstance(reply, bytes):
        return {}
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def kind_of(fields: Mapping[str, str]) -> str:
    """Return ``"redis"``, ``"valkey"`` or ``"dragonfly"``; empty if unknown."""
    for kind in ("valkey", "dragonfly"):
        if f"{kind}_version" in fields or fields.get("server") == kind:
            return kind
    return "redis" if "redis_version" in fields or "version" in fields else ""


def version_of(fields: Mapping[str, str]) -> tuple[int, ...]:
    """Return the version of that kind: ``(7, 0, 15)``; empty if unknown."""
    # Other kinds also report the redis_version whose behavior they follow; prefer their own version.
    for name in ("valkey_version", "dragonfly_version", "redis_version", "version"):
        if name in fields:
            digits = fields[name].rpartition("v")[2].split("-")[0].split(".")
            return tuple(int(part) for part in digits if part.isdigit())
    return ()


def text(value: object) -> str:
    """Return bytes as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
