"""Move the lock of a job that moves to another queue or server.

The queue is part of a lock's name, unless ``across_queues`` is set, and the lock is on the server of its job. So
before a job moves, it takes the lock that a push to its new queue would need; after the move it frees the old lock. If
another job already holds the new lock, both jobs stay: neither was a duplicate when it was pushed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from offsider.config.installation import Installation
from offsider.core.compression import readable
from offsider.ext.unique import store
from offsider.ext.unique.guard import KEY, Guard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsider.core.payload import JobPayload
    from offsider.runtime.events import JobMoved, JobMoving


class Moves:
    """Listener for `offsider migrate`, in the migrating process."""

    def __init__(self, here: Installation, guard: Guard) -> None:
        self._here = here
        self._guard = guard

    def install(self) -> None:
        self._here.config.on("job_moving", self.take_new)
        self._here.config.on("job_moved", self.free)

    def take_new(self, news: JobMoving) -> None:
        """Take the new lock and write its name into the job."""
        old, jid = _held(news.payload)
        if not old:
            return
        payload = readable(cast("JobPayload", news.payload))  # the arguments are part of the name
        # Locked by another rule or by a function unknown here: the new name cannot be computed.
        if self._guard.lock_name(payload) != old:
            return
        new = self._guard.lock_name({**payload, "queue": news.changes["queue"]})
        if (news.from_server, old) == (news.to_server, new):
            return
        source, destination = self._here.for_server(news.from_server).redis, self._here.for_server(news.to_server).redis
        if store.take_over(source, old, jid, destination, new):
            news.changes[KEY] = new

    def free(self, news: JobMoved) -> None:
        """Free the old lock after a move, or the new lock if the job did not move."""
        moving = news.moving
        old, jid = _held(moving.payload)
        new = moving.changes.get(KEY, "")
        if news.moved and (new or (old and moving.from_server != moving.to_server)):
            store.release(self._here.for_server(moving.from_server).redis, old, jid)
        elif new and not news.moved:
            store.release(self._here.for_server(moving.to_server).redis, new, jid)


def _held(payload: Mapping[str, Any]) -> tuple[str, str]:
    lock, jid = payload.get(KEY), payload.get("jid")
    return (lock, jid) if isinstance(lock, str) and isinstance(jid, str) else ("", "")
