"""Who this worker is in Redis: its identity, and the private lists that it answers for.

1. A launcher draws an identity ``host:pid:nonce``; the nonce is new for every launcher and fork.
2. `register` beats once, so that the registry knows every list before the first claim fills one.
3. Each later beat rewrites the registration and prolongs the life.
4. The keeper, where there is one, is told of each registration and of a clean end.
5. When the server answers FENCED, others have declared this owner dead: `renew` draws a new nonce. What
   was claimed under the old one is settled under the old one, and void.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced
from offsider.storage import owners
from offsider.storage.owners import Lists
from offsider.storage.redis import Redis
from offsider.storage.working import Owner

if TYPE_CHECKING:
    from offsider.worker.keeper.link import KeeperLink

logger = logging.getLogger("offsider")


def new_identity() -> str:
    """``host:pid:nonce`` as Sidekiq writes it; Heroku's ``DYNO`` is more telling than its host names."""
    host = os.environ.get("DYNO") or socket.gethostname()
    return f"{host}:{os.getpid()}:{secrets.token_hex(6)}"


class Ownership:
    """The identity of one launcher, shared by its fetchers and its liveness service.

    Args:
        redis: where the registry is.
        queues: for each capsule the queues it serves.
        liveness_seconds: how long a beat keeps the owner alive.
        keeper: told who the owner is; it beats as well, and gives the jobs back when the process dies.
    """

    def __init__(
        self,
        redis: Redis,
        queues: Mapping[str, Iterable[str]],
        liveness_seconds: float,
        keeper: KeeperLink | None = None,
    ) -> None:
        self._redis = redis
        self._queues = {capsule: list(names) for capsule, names in queues.items()}
        self._life_ms = int(liveness_seconds * 1000)
        self._lock = threading.RLock()
        self._left = False
        self._keeper = keeper
        #: When the server last took a beat, by the monotonic clock; None before the first.
        self.beaten_at: float | None = None
        self.identity = new_identity()

    def registered(self, capsule: str) -> tuple[str, ...]:
        """Every queue that the capsule has ever served, also those that are gone: jobs of them may still be held."""
        return tuple(self._queues[capsule])

    def owner(self, capsule: str) -> Owner:
        return Owner(self.identity, capsule)

    def register(self) -> None:
        """Beat; when fenced meanwhile, come back under a new nonce. Nothing once the owner has left."""
        with self._lock:
            if self._left:
                return
            identity = self.identity
            try:
                self._beat(identity)
            except Fenced:
                self.renew(identity)

    def renew(self, fenced_identity: str) -> None:
        """Take a new nonce, unless another thread has done so since ``fenced_identity`` was refused."""
        with self._lock:
            if self.identity != fenced_identity:
                return
            identity = new_identity()
            # Registered before it is used: nothing may be claimed into lists that nobody would find.
            self._beat(identity)
            self.identity = identity
            logger.warning(
                "%s was declared dead while it was silent; its jobs run elsewhere, this process goes on as %s",
                fenced_identity,
                identity,
            )

    def serve(self, capsule: str, queues: Iterable[str]) -> None:
        """Register further queues of a capsule, before anything is claimed from them."""
        with self._lock:
            known = self._queues[capsule]
            wider = list(dict.fromkeys((*known, *queues)))
            if wider != known:
                self._queues[capsule] = wider
                try:
                    self.register()
                except BaseException:
                    self._queues[capsule] = known  # not registered: the next call has to try again
                    raise

    def leave(self) -> bool:
        """Strike the owner off at a clean exit; False when jobs are still in its lists for others to find."""
        with self._lock:
            # A beat that waits for this lock would put the owner back.
            self._left = True
            left = owners.forget(self._redis, self._lists(self.identity), leaving=True)
            if left and self._keeper is not None:
                self._keeper.left()
            return left

    def _beat(self, identity: str) -> None:
        lists = self._lists(identity)
        owners.beat(self._redis, lists, self._life_ms)
        self.beaten_at = time.monotonic()
        if self._keeper is not None:
            self._keeper.owns(lists, self._life_ms, self._redis.settings)

    def _lists(self, identity: str) -> Lists:
        return Lists(identity, {capsule: tuple(queues) for capsule, queues in self._queues.items()})
