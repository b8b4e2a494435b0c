"""Pushes to a chosen server within a block."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

from offsider.core.errors import InvalidOptions

_server: ContextVar[str] = ContextVar("offsider_server", default="")
#: Returns the server of the enclosing `via` block; empty outside.
chosen_server = _server.get


@contextmanager
def via(server: str) -> Generator[None, None, None]:
    """Push to the configured server ``server``. Takes precedence over rules and declarations.

    ::

        with via("bulk"):
            import_rows.enqueue_many(rows)

    Applies to pushes of this thread or asyncio task within the block, except those that name a server themselves.
    Raises InvalidOptions if ``server`` is not a name; a push raises ConfigurationError for an unknown server. In nested
    blocks the innermost applies.
    """
    given = cast("object", server)
    if not isinstance(given, str) or not given:
        raise InvalidOptions(f"via expects the name of a server, got {given!r}")
    token = _server.set(server)
    try:
        yield
    finally:
        _server.reset(token)
