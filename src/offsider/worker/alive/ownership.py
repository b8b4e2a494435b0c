"""The worker's identity in Redis, and the private lists that it owns.

1. A launcher creates an identity ``host:pid:nonce``; the nonce is new for every launcher and fork.
2. `register` beats once, so that the registry lists every private list before the first claim fills one.
3. Each later beat extends the liveness period. One in each period, and one after a change, rewrites the registration.
4. The parent, if there is one, receives each registration and a clean exit.
5. If the server replies FENCED, another process has declared this owner dead: `renew` creates a new nonce. Jobs that
   were claimed under the old one are settled under the old one, and their outcomes are void.
6. `Liveness` beats five times per liveness period. At each beat the fetchers also compare the number of their jobs
   with the length of their private lists. The parent beats too, from a process that no job can block; this service
   reports to it at each beat, even when the beat failed.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import owners
from offsider.storage.owners import Lists
from offsider.storage.redis import Redis
from offsider.storage.working import Owner

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.worker.alive.parent_link import ParentLink


logger = logging.getLogger("offsider")


def new_identity() -> str:
    """``host:pid:nonce`` in Sidekiq's format; on Heroku the host is ``DYNO``, since host names there are random."""
    host = os.environ.get("DYNO") or socket.gethostname()
    return f"{host}:{os.getpid()}:{secrets.token_hex(6)}"


class Ownership:
    """The identity of one launcher, shared by its fetchers and its liveness service.

    Args:
        redis: server of the registry.
        queues: the queues of each capsule.
        liveness_seconds: how long a beat keeps the owner alive.
        parent: receives each registration; it beats as well, and requeues the jobs when the process dies.
    """

    def __init__(
        self,
        redis: Redis,
        queues: Mapping[str, Iterable[str]],
        liveness_seconds: float,
        parent: ParentLink | None = None,
    ) -> None:
        self._redis = redis
        self._queues = {capsule: list(names) for capsule, names in queues.items()}
        self._life_ms = int(liveness_seconds * 1000)
        self._lock = threading.RLock()
        self._left = False
        self._parent = parent
        #: The registration that the server has, until when it need not be written again.
        self._written: Lists | None = None
        self._written_until = 0.0
        #: Time of the last successful beat in monotonic seconds; None before the first.
        self.beaten_at: float | None = None
        self.identity = new_identity()
        self._owners: dict[str, Owner] = {}

    def registered(self, capsule: str) -> tuple[str, ...]:
        """Every queue that the capsule has ever served, including removed ones: private lists may still have jobs."""
        return tuple(self._queues[capsule])

    def owner(self, capsule: str) -> Owner:
        """Return the owner of the private lists of a capsule: the same object until the identity changes."""
        owner = self._owners.get(capsule)
        if owner is None or owner.identity is not self.identity:
            owner = self._owners[capsule] = Owner(self.identity, capsule)
        return owner

    def register(self) -> None:
        """Beat; if this owner was fenced, register under a new nonce. Does nothing after `leave`."""
        with self._lock:
            if self._left:
                return
            identity = self.identity
            try:
                self._beat(identity)
            except Fenced:
                self.renew(identity)

    def renew(self, fenced_identity: str) -> None:
        """Create a new nonce, unless another thread has done so since ``fenced_identity`` was refused."""
        with self._lock:
            if self.identity != fenced_identity:
                return
            identity = new_identity()
            # Register it before use: a sweeper could not find jobs in unregistered lists.
            self._beat(identity)
            self.identity = identity
            logger.warning(
                "%s sent no heartbeat in time and was declared dead: other workers run its jobs again, and this "
                "process continues as %s",
                fenced_identity,
                identity,
            )

    def serve(self, capsule: str, queues: Iterable[str]) -> None:
        """Register additional queues of a capsule, before anything is claimed from them."""
        with self._lock:
            known = self._queues[capsule]
            wider = list(dict.fromkeys((*known, *queues)))
            if wider != known:
                self._queues[capsule] = wider
                try:
                    self.register()
                except BaseException:
                    self._queues[capsule] = known  # not registered: the next call retries
                    raise

    def leave(self) -> bool:
        """Remove the owner from the registry at a clean exit; False if its lists still contain jobs for a sweeper."""
        with self._lock:
            # Otherwise a beat that waits for this lock would register the owner again.
            self._left = True
            left = owners.forget(self._redis, self._lists(self.identity), leaving=True)
            if left and self._parent is not None:
                self._parent.left()
            return left

    def _beat(self, identity: str) -> None:
        lists, now = self._lists(identity), time.monotonic()
        is_written = lists == self._written and now < self._written_until
        if not (is_written and owners.renew(self._redis, identity, self._life_ms)):
            owners.beat(self._redis, lists, self._life_ms)
            self._written, self._written_until = lists, now + self._life_ms / 1000
        self.beaten_at = time.monotonic()
        if self._parent is not None:
            self._parent.owns(lists, self._life_ms, self._redis.settings)

    def _lists(self, identity: str) -> Lists:
        return Lists(identity, {capsule: tuple(queues) for capsule, queues in self._queues.items()})


BEATS_PER_LIFE = 5


class Liveness(Loop):
    """The service that sends liveness beats.

    Args:
        audits: called after each successful beat.
        parent: receives a report when a beat fails, as proof that the worker still runs.
    """

    def __init__(
        self,
        config: Config,
        ownership: Ownership,
        audits: Sequence[Callable[[], None]],
        parent: ParentLink | None = None,
    ) -> None:
        self._ownership = ownership
        self._audits = audits
        self._parent = parent
        self._pause_seconds = config.worker.liveness_seconds / BEATS_PER_LIFE
        self._outage = Outage("liveness", config)
        super().__init__("offsider-liveness", self.tick, config.handle_error)

    def tick(self) -> float:
        """Beat once."""
        with self._outage:
            self._ownership.register()
            for audit in self._audits:
                audit()
            return self._pause_seconds
        if self._parent is not None:
            self._parent.repeat()
        return min(1.0, self._pause_seconds)
