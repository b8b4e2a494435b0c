"""Selects the client of a push: the requested one, the running worker's, or the default one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TypeAlias

from offsider.client import Client

ClientSource: TypeAlias = Client | Callable[[], Client]

#: The client of the capsule whose thread or task this is; None outside of a worker.
_of_capsule: ContextVar[Client | None] = ContextVar("offsider_client", default=None)


def push_with(client: Client) -> Token[Client | None]:
    """Have jobs that are enqueued from now on, in this context, pushed by ``client``."""
    return _of_capsule.set(client)


@contextmanager
def pushing_with(client: Client) -> Generator[None, None, None]:
    """Have jobs that are enqueued inside of the block pushed by ``client``."""
    token = push_with(client)
    try:
        yield
    finally:
        _of_capsule.reset(token)


def client_for(via: ClientSource | None = None) -> Client:
    """Return the client of a push, in the order of the module docstring."""
    if via is None:  # most pushes
        return _of_capsule.get() or Client.of()
    return via if isinstance(via, Client) else via()
