"""Pushing to a server of one's choice, for the time of a block."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_server: ContextVar[str] = ContextVar("offsider_server", default="")


def chosen_server() -> str:
    """The server that the surrounding `via` names; empty outside of one."""
    return _server.get()


@contextmanager
def via(server: str) -> Generator[None, None, None]:
    """Push to the server ``server``, one of the configuration's, whatever rules and declarations say.

    ::

        with via("bulk"):
            import_rows.enqueue_many(rows)

    Holds for what the block pushes in this thread or asyncio task, but for pushes that name a server themselves.
    A push raises ConfigurationError when there is no such server. Blocks may be nested: the inner one counts.
    """
    token = _server.set(server)
    try:
        yield
    finally:
        _server.reset(token)
