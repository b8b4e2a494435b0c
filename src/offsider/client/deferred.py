"""Pushes that are stored later: after a commit, by the outbox, or by the collector of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from offsider.client.alike import Pushes, jids_of, passed, stored_jids, templates
from offsider.config import test_mode
from offsider.config.hooks import Prepared
from offsider.config.installation import Installation


class StoresPushes(Protocol):
    """The part of `Client` that stores the pushes."""

    installation: Installation

    def prepare_all(self, pushes: Pushes) -> Sequence[Prepared | None]: ...
    def store_all(self, pushes: Pushes, wait_replicas: int = 0) -> Sequence[str]: ...


class DeferredCallback:
    """The callback of pushes that wait for a commit; the outbox and collectors take their jobs instead.

    Args:
        client: stores the pushes.
        pushes: the pushes.
        wait_replicas: the number of replicas that they wait for.

    Attributes:
        installation: the server of pushes that name none.
        pushes, wait_replicas: as given.
        jids: the ids; once stored or prepared, empty for each canceled or refused push.
    """

    def __init__(self, client: StoresPushes, pushes: Pushes, wait_replicas: int = 0) -> None:
        self.jids = jids_of(pushes)
        self.installation = client.installation
        self.pushes = pushes
        self.wait_replicas = wait_replicas
        self._client = client
        # The commit may come after the end of the test mode; the jobs must not reach a server then.
        self._store_all = test_mode.bound(client.store_all)
        self._prepared: Sequence[Prepared] | None = None

    def __call__(self) -> None:
        test_mode.waiting.discard(self)
        self.jids = self._store_all(self.pushes, self.wait_replicas)

    def prepare(self) -> Sequence[Prepared]:
        """See `offsider.config.hooks.PendingPushes`."""
        test_mode.waiting.discard(self)
        if self._prepared is None:
            for push in templates(self.pushes):
                push.server = push.server or self.installation.name
            jobs = self._client.prepare_all(self.pushes)
            self.jids = stored_jids(jobs)
            self._prepared = passed(jobs)
        return self._prepared


class Collector(ABC):
    """Takes the pushes of the current thread or task instead of the server."""

    @abstractmethod
    def add(self, pushes: DeferredCallback) -> bool:
        """Take pushes; return whether the client should call `flush` now. Raises what the pushes should raise."""

    @abstractmethod
    def flush(self) -> None:
        """Store the pushes taken so far. Blocks; pushes of coroutines call it in a thread."""


_collector: ContextVar[Collector | None] = ContextVar("offsider_collector", default=None)
#: Returns the collector of the innermost `collecting` block.
collector = _collector.get


@contextmanager
def collecting(collector: Collector) -> Generator[None, None, None]:
    """Pass every push of this thread or task to ``collector`` inside the block."""
    token = _collector.set(collector)
    try:
        yield
    finally:
        _collector.reset(token)
