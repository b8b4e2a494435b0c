"""List and release the locks of unique jobs, and find locks whose job is gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.core.wording import counted
from offsider.ext.unique import store
from offsider.ext.unique.guard import Guard
from offsider.inspector.finding import Finding, ok, warn
from offsider.inspector.search import search_everywhere
from offsider.storage import owners, working

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis


@dataclass(frozen=True)
class Lock:
    """The lock of a unique job.

    Attributes:
        name: name of the lock: a hex digest, the job's ``idempotency_key``.
        jid: of the job.
        job_name: the job's stored name.
        taken_at: epoch seconds, by the clock of the pushing process.
        age_seconds: time since it was taken.
        ttl_seconds: time until it expires.
        runs_again: duplicates were dropped, so the job will run once more.
    """

    name: str
    jid: str
    job_name: str
    taken_at: float
    age_seconds: float
    ttl_seconds: float
    runs_again: bool
    _redis: Redis = field(repr=False, compare=False)

    def release(self) -> bool:
        """Free the lock: the next push of the same job is stored, even if this job still exists.

        Return False if the job no longer holds it.
        """
        return store.release(self._redis, self.name, self.jid) == store.FREED


class Locks:
    """All locks of one server.

    ::

        for lock in Locks():
            print(lock.job_name, lock.jid, lock.ttl_seconds)
        Locks().locked(refresh, 42)

    Args:
        config: the server; default: the process-wide configuration.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._server = Installation.of(config)
        self._redis = self._server.redis

    def __len__(self) -> int:
        """Return the number of locks."""
        return store.count(self._redis)

    def __iter__(self) -> Iterator[Lock]:
        """Yield every lock that exists for the whole iteration, unordered."""
        seen = set[str]()
        for page in store.pages(self._redis):
            fresh = [held for held in page if held.lock not in seen]
            seen.update(held.lock for held in fresh)
            yield from map(self._lock, fresh)

    def find(self, name: str) -> Lock | None:
        """Return a lock by name; None if it is free."""
        held = store.read(self._redis, [name])[0]
        return None if held is None else self._lock(held)

    def of(self, job: object, /, *args: Any, **kwargs: Any) -> Lock | None:
        """Return the lock that a push of this job to its usual queue needs; None if it is free.

        Args:
            job: a declared job, or the stored name of a job.
            args: the arguments of the push.
            kwargs: the keyword arguments of the push.

        Raises:
            ConfigurationError: the extension is not installed.
            InvalidJob: the arguments do not match the job's signature.
        """
        guard = self._server.config.push_guard
        if not isinstance(guard, Guard):
            raise ConfigurationError("the extension Unique is not installed; call config.use(Unique())")
        item: dict[str, Any] = {"class": job, "args": args}
        push = Client(self._server).build({**item, "kwargs": kwargs} if kwargs else item)
        resolver = self._server.config.queue_resolver
        queue = resolver(push) if resolver is not None else None
        if queue is not None:
            push.payload["queue"] = queue
        there = self if not push.server else Locks(self._server.for_server(push.server))
        return there.find(guard.lock_name(cast("dict[str, Any]", push.payload)))

    def locked(self, job: object, /, *args: Any, **kwargs: Any) -> bool:
        """Whether a push of this job would be dropped now. Raises the errors of `of`."""
        return self.of(job, *args, **kwargs) is not None

    def release(self, name: str) -> bool:
        """Free a lock by name, whichever job holds it. Return False if it is free."""
        lock = self.find(name)
        return lock is not None and lock.release()

    def _lock(self, held: store.Held) -> Lock:
        taken_at = held.taken_ms / 1000
        return Lock(
            name=held.lock,
            jid=held.jid,
            job_name=held.name,
            taken_at=taken_at,
            age_seconds=max(0.0, self._server.config.clock.now() - taken_at),
            ttl_seconds=held.left_ms / 1000,
            runs_again=held.again,
            _redis=self._redis,
        )


#: The doctor searches for the jobs of a few locks, from this age on, for a short time each.
OLD_SECONDS = 600.0
MAX_SEARCHED = 5
SEARCH_MS = 200.0


def check_unique(server: Installation) -> Iterator[Finding]:
    """Report old locks whose job is stored nowhere: pushes of the same job are dropped until the lock expires."""
    locks = Locks(server)
    old = sorted((lock for lock in locks if lock.age_seconds > OLD_SECONDS), key=lambda lock: lock.taken_at)
    gone = [lock for lock in old[:MAX_SEARCHED] if _is_gone(server, lock)]
    for lock in gone:
        yield warn(
            "unique",
            f"job {lock.jid} ({lock.job_name}) holds a lock, but is stored nowhere",
            cause=f"pushes of the same job are dropped for another {lock.ttl_seconds:.0f} s",
            action=f"offsider locks release {lock.jid}",
        )
    if not gone:
        yield ok("unique", f"{counted(len(locks), 'lock')} of unique jobs")


def _is_gone(server: Installation, lock: Lock) -> bool:
    """Whether a complete search found no such job. Private lists are read again, because a job moves fast."""
    if _is_claimed(server, lock.jid):
        return False
    chunk = search_everywhere(lock.jid, budget_ms=SEARCH_MS, config=server)
    if not chunk.complete or chunk.entries or _is_claimed(server, lock.jid):
        return False
    now = Locks(server).find(lock.name)
    return now is not None and now.jid == lock.jid


def _is_claimed(server: Installation, jid: str) -> bool:
    redis = server.redis
    lists = chain.from_iterable(held.owners() for held in owners.registered(redis))
    return any(jid.encode() in entry.raw for owner, names in lists for entry in working.contents(redis, owner, names))
