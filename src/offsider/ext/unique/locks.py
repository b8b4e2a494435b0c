"""The locks of unique jobs, to look at and to free: what the inspector is to jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.core.errors import ConfigurationError
from offsider.ext.unique import reaper, store
from offsider.ext.unique.guard import Guard
from offsider.wiring.default import default_config

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config


@dataclass(frozen=True)
class Lock:
    """A lock that a job holds.

    Attributes:
        name: of the lock; a digest in hex, and the job's ``idempotency_key``.
        jid: of the job.
        job_name: the job's stored name.
        taken_at: epoch seconds, by the clock of who pushed.
        age_seconds: since it was taken.
        ttl_seconds: until it ends by itself.
        runs_again: duplicates were dropped, and the job will run once more for them.
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
        """Free it: the next push of the same job is stored, although this one may still be there.

        False when the job does not hold it any more.
        """
        return store.release(self._redis, self.name, self.jid) == store.FREED


class Locks:
    """All locks of one server.

    ::

        for lock in Locks():
            print(lock.job_name, lock.jid, lock.ttl_seconds)
        Locks().locked(refresh, 42)

    Args:
        config: which server; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()
        self._redis = self._config.shared_redis()

    def __len__(self) -> int:
        """How many are held; some that ended in the last minutes may be among them."""
        return store.count(self._redis)

    def __iter__(self) -> Iterator[Lock]:
        """Every lock that is held all the time, in no order."""
        seen = set[str]()
        for page in store.pages(self._redis):
            fresh = [held for held in page if held.lock not in seen]
            seen.update(held.lock for held in fresh)
            yield from map(self._lock, fresh)

    def find(self, name: str) -> Lock | None:
        """The lock of this name; None when nobody holds it."""
        held = store.read(self._redis, [name])[0]
        return None if held is None else self._lock(held)

    def of(self, job: object, *args: Any, **kwargs: Any) -> Lock | None:
        """The lock that a push of this job, to its usual queue, would need; None when it is free.

        Args:
            job: a declared job, or the stored name of one.
            args: the arguments of the push.
            kwargs: the same.

        Raises:
            ConfigurationError: the extension is not installed.
            InvalidJob: the arguments do not fit.
        """
        guard = self._config.push_guard
        if not isinstance(guard, Guard):
            raise ConfigurationError("there are no unique jobs here: config.use(Unique()) installs them")
        item: dict[str, Any] = {"class": job, "args": args}
        push = Client(self._config).build({**item, "kwargs": kwargs} if kwargs else item)
        resolver = self._config.queue_resolver
        queue = resolver(push) if resolver is not None else None
        if queue is not None:
            push.payload["queue"] = queue
        there = self if not push.server else Locks(self._config.for_server(push.server))
        return there.find(guard.lock_name(cast("dict[str, Any]", push.payload)))

    def locked(self, job: object, *args: Any, **kwargs: Any) -> bool:
        """Whether a push of this job would be dropped now. Raises as `of`."""
        return self.of(job, *args, **kwargs) is not None

    def release(self, name: str) -> bool:
        """Free the lock of this name, whoever holds it. False when nobody does."""
        lock = self.find(name)
        return lock is not None and lock.release()

    def reap(self) -> int:
        """Free now the locks whose job is nowhere, which a worker does by itself; answers how many.

        Raises:
            RedisFailure: a server does not answer: the job of a lock may be on its way from there.
        """
        others = partial(reaper.other_servers, self._config)
        return reaper.Reaper(self._redis, age_seconds=0.0, others=others).run()

    def _lock(self, held: store.Held) -> Lock:
        taken_at = held.taken_ms / 1000
        return Lock(
            name=held.lock,
            jid=held.jid,
            job_name=held.name,
            taken_at=taken_at,
            age_seconds=max(0.0, self._config.clock.now() - taken_at),
            ttl_seconds=held.left_ms / 1000,
            runs_again=held.again,
            _redis=self._redis,
        )
