"""Pushes that are stored later: after a commit, by the outbox, or by a collector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from offsider.client.alike import Pushes, jids_of, templates
from offsider.client.prepared import Prepared, passed, stored_jids
from offsider.config import test_mode
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
