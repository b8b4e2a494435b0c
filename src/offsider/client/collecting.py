"""Collects the pushes of a block, which an extension stores together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.client.deferred import DeferredCallback

_collector: ContextVar[Collector | None] = ContextVar("offsider_collector", default=None)


class Collector(ABC):
    """Takes the pushes of the current thread or task instead of the server."""

    @abstractmethod
    def add(self, pushes: DeferredCallback) -> bool:
        """Take pushes; return whether the client should call `flush` now. Raises what the pushes should raise."""

    @abstractmethod
    def flush(self) -> None:
        """Store the pushes taken so far. Blocks; asynchronous clients call it in a thread."""


def collector() -> Collector | None:
    """Return the collector of the innermost `collecting` block."""
    return _collector.get()


@contextmanager
def collecting(collector: Collector) -> Generator[None, None, None]:
    """Pass every push of this thread or task to ``collector`` inside the block."""
    token = _collector.set(collector)
    try:
        yield
    finally:
        _collector.reset(token)
