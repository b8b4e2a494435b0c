"""Locks of unique jobs: their keys and values, reading and releasing them, and locks whose job is gone.

===========================  ======  ==================================  ==================================
key                          type    written by                          expires
===========================  ======  ==================================  ==================================
``offsider:unique``          zset    push (locks by their end)           never (pushes remove expired names)
``offsider:unique:<lock>``   string  push                                with the lock, within 30 days
``offsider:throttle:<lock>`` string  push                                after ``throttle``
``offsider:debounce:<lock>`` string  push (the waiting job)              a minute after the job is due
===========================  ======  ==================================  ==================================

``<lock>`` is the name, a hex digest. The value starts with the jid of the holder. After it follow, separated by spaces:
the time the lock was taken in milliseconds, the handling of duplicates (``drop``; ``wanted`` if the job may run once
more for them; ``again`` if it will), and the class of the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.ext.unique.rules import lock_name
from offsider.inspector.finding import Finding, warn
from offsider.inspector.search import search_everywhere
from offsider.storage import clocks, hashes, owners
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

if TYPE_CHECKING:
    from offsider.config.config import Config

EXTENSION = "unique"
RELEASE = Script("release", files("offsider.ext.unique") / "lua")
#: Replies of ``release.lua``.
NOT_OURS, FREED, RUN_AGAIN = 0, 1, 2
_VALUE = re.compile(r"(\S+) (\d{1,15}) (drop|wanted|again) (.*)", re.DOTALL)


def index_key(keys: Keys) -> str:
    return f"{keys.prefix}offsider:unique"


def lock_key(keys: Keys, lock: str, kind: str = "unique") -> str:
    """Return the key of a lock; for the kind ``debounce`` it is the job that waits."""
    return f"{keys.prefix}offsider:{kind}:{lock}"


def release_keys(keys: Keys, lock: str) -> list[str]:
    """Return the keys of `RELEASE`."""
    return [lock_key(keys, lock), index_key(keys)]


def value_of(jid: str, name: str, taken_ms: int, *, may_run_again: bool = False) -> str:
    """Return the value of a new lock."""
    return f"{jid} {taken_ms} {'wanted' if may_run_again else 'drop'} {name}"


def release(redis: Redis, lock: str, jid: str, *, may_run_again: bool = False) -> int:
    """Free a lock if the job holds it; with ``may_run_again``, keep the lock of a job that runs once more.

    Return `NOT_OURS`, `FREED` or `RUN_AGAIN`.
    """
    return int(redis.run(RELEASE, release_keys(redis.keys, lock), [jid, int(may_run_again)]))


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
        return release(self._redis, self.name, self.jid) == FREED


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
        now_ms = clocks.look(self._redis)[0] * 1000
        return int(self._redis.call("ZCOUNT", index_key(self._redis.keys), f"({now_ms:.0f}", "+inf"))

    def __iter__(self) -> Iterator[Lock]:
        """Yield every lock that exists for the whole iteration, unordered."""
        seen = set[str]()
        for found in hashes.scanned(self._redis, "ZSCAN", index_key(self._redis.keys)):
            names = {hashes.text(name) for name in found[::2]} - seen
            seen |= names
            yield from self._read([*names])

    def find(self, name: str) -> Lock | None:
        """Return a lock by name; None if it is free."""
        return next(self._read([name]), None)

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
        unique: Any = self._server.config.extensions.get(EXTENSION)
        if unique is None:
            raise ConfigurationError("the extension Unique is not installed; call config.use(Unique())")
        item: dict[str, Any] = {"class": job, "args": args}
        push = Client(self._server).build({**item, "kwargs": kwargs} if kwargs else item)
        resolver = self._server.config.queue_resolver
        queue = resolver(push) if resolver is not None else None
        if queue is not None:
            push.payload["queue"] = queue
        locks = self if not push.server else Locks(self._server.for_server(push.server))
        payload = cast("dict[str, Any]", push.payload)
        return locks.find(lock_name(payload, self._server.config, across_queues=unique.across_queues))

    def locked(self, job: object, /, *args: Any, **kwargs: Any) -> bool:
        """Whether a push of this job would be dropped now. Raises the errors of `of`."""
        return self.of(job, *args, **kwargs) is not None

    def release(self, name: str) -> bool:
        """Free a lock by name, whichever job holds it. Return False if it is free."""
        lock = self.find(name)
        return lock is not None and lock.release()

    def _read(self, names: Sequence[str]) -> Iterator[Lock]:
        """Yield the locks with these names that are held."""
        keys = [lock_key(self._redis.keys, name) for name in names]
        replies = self._redis.pipeline([(command, key) for key in keys for command in ("GET", "PTTL")]) if keys else []
        for name, stored, left_ms in zip(names, replies[::2], replies[1::2], strict=True):
            match = None if stored is None else _VALUE.fullmatch(stored.decode(errors="replace"))
            if match is not None:
                taken_at = int(match[2]) / 1000
                yield Lock(
                    name=name,
                    jid=match[1],
                    job_name=match[4],
                    taken_at=taken_at,
                    age_seconds=max(0.0, self._server.config.clock.now() - taken_at),
                    ttl_seconds=max(0, int(left_ms)) / 1000,
                    runs_again=match[3] == "again",
                    _redis=self._redis,
                )


#: The doctor searches for the jobs of a few locks, from this age on, for a short time each.
OLD_SECONDS = 600.0
MAX_SEARCHED = 5
SEARCH_MS = 200.0


def check_unique(server: Installation) -> Iterator[Finding]:
    """Report old locks whose job is stored nowhere: pushes of the same job are dropped until the lock expires."""
    old = sorted((lock for lock in Locks(server) if lock.age_seconds > OLD_SECONDS), key=lambda lock: lock.taken_at)
    for lock in (lock for lock in old[:MAX_SEARCHED] if _is_gone(server, lock)):
        yield warn(
            "unique",
            f"job {lock.jid} ({lock.job_name}) holds a lock, but is stored nowhere",
            cause=f"pushes of the same job are dropped for another {lock.ttl_seconds:.0f} s",
            actions=(f"offsider locks release {lock.jid}",),
            subject=lock.jid,
            numbers={"ttl_seconds": lock.ttl_seconds},
            since=lock.taken_at,
        )


def _is_gone(server: Installation, lock: Lock) -> bool:
    """Whether a complete search found no such job. Private lists are read again, because a job moves fast."""
    if any(owners.claimed_with(server.redis, lock.jid)):
        return False
    chunk = search_everywhere(lock.jid, budget_ms=SEARCH_MS, config=server)
    if not chunk.complete or chunk.entries or any(owners.claimed_with(server.redis, lock.jid)):
        return False
    now = Locks(server).find(lock.name)
    return now is not None and now.jid == lock.jid
