"""The interface between a relay and a database, and its rows."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from offsider.config.hooks import Prepared

QUEUE = "queue:"
SCHEDULE = "schedule"
#: Channel of the notifications of PostgreSQL.
CHANNEL = "offsider_outbox"


@dataclass(frozen=True, slots=True)
class StoredPush:
    """One push.

    Attributes:
        jid: id of the job.
        server: name of the server that gets it.
        place: ``queue:<name>``, or ``schedule``.
        score: due time in epoch seconds, in the schedule.
        payload: the bytes to store; no log may contain them.
        guarded: the push guard stores it.
        created_at: epoch seconds of the push.
        id: number of the row. Numbers increase, and a deleted one is never used again.
    """

    jid: str
    server: str
    place: str
    score: float | None
    payload: bytes = field(repr=False)
    guarded: bool
    created_at: float = field(default_factory=time.time)
    id: int = 0

    @classmethod
    def of(cls, job: Prepared, server: str = "") -> StoredPush:
        """Return the row of a job; ``server`` is for a job that names none."""
        return cls(job.jid, job.server or server, place_of(job), job.at, job.raw, job.guarded)


def place_of(job: Prepared) -> str:
    """Return the place of a job: ``queue:<name>``, or ``schedule``."""
    return QUEUE + job.queue if job.at is None else SCHEDULE


class Source(Protocol):
    """A database with a table of rows. ``add`` and ``is_open`` are called by pushes, the other methods by a relay."""

    @property
    def noun(self) -> str:
        """``"outbox"`` or ``"spool"``: in the name of the lease, and in messages."""
        ...

    @property
    def identity(self) -> str:
        """Names the database: the same text in all processes that use it, and no secret."""
        ...

    def is_open(self) -> bool:
        """Return whether `add` has a transaction to write to, or writes without one."""
        ...

    def add(self, rows: Sequence[StoredPush]) -> None:
        """Write rows in the transaction of the caller."""
        ...

    def read(self, server: str, after_id: int, limit: int) -> list[StoredPush]:
        """Return the first committed rows of a server with higher ids, in the order of their ids."""
        ...

    def delete(self, ids: Sequence[int]) -> None:
        """Delete rows, and commit."""
        ...

    def waiting(self) -> Mapping[str, tuple[int, float]]:
        """Return the number of committed rows of each server, and the lowest ``created_at``. Any thread calls it."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a notification of new rows. False, without a wait: the database sends none."""
        ...

    def close(self) -> None:
        """Close the connection of the relay, which may be broken; the next call opens another one."""
        ...


def identity_of(host: str | None, *rest: object) -> str:
    """Return the identity of a database on a host; None, an empty name or a path means this machine."""
    if not host or host.startswith("/") or host in {"localhost", "127.0.0.1", "::1"}:
        host = socket.gethostname()
    return hashlib.sha256(repr((host, *map(str, rest))).encode()).hexdigest()[:16]


def can_listen(connection: Any) -> bool:
    """Return whether a connection is one of psycopg 3; other drivers would keep all notifications in memory."""
    return type(connection).__module__.partition(".")[0] == "psycopg"


def wait_for_notification(connection: Any, seconds: float) -> bool:
    """Wait on a connection of psycopg after ``LISTEN``. False, without a wait, before psycopg 3.2."""
    try:
        notifications = connection.notifies(timeout=seconds, stop_after=1)
    except TypeError:  # psycopg 3.1 has no timeout
        return False
    for _ in notifications:
        pass
    return True
