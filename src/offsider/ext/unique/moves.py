"""Jobs that move to another queue, or to another server, take their locks along.

A lock is named after the queue as well, unless duplicates are looked for across queues, and it lies on the server of
its job. So a job that moves takes the lock that a push to its new place would need, before it moves, and frees the old
one when it has. Where another job holds the new lock already, both stay: each was pushed when it was no duplicate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from offsider.core.compression import readable
from offsider.ext.unique import store
from offsider.ext.unique.guard import KEY, Guard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsider.core.payload import JobPayload
    from offsider.wiring.config import Config
    from offsider.wiring.events import JobMoved, JobMoving


class Moves:
    """Listens to `offsider migrate`, in the process that does it."""

    def __init__(self, config: Config, guard: Guard) -> None:
        self._config = config
        self._guard = guard

    def install(self) -> None:
        self._config.on("job_moving", self.take_along)
        self._config.on("job_moved", self.free)

    def take_along(self, news: JobMoving) -> None:
        """Take the new lock, and note its name in the job."""
        old, jid = _held(news.payload)
        if not old:
            return
        payload = readable(cast("JobPayload", news.payload))  # the name is made of its arguments
        # By another rule, or by a function that is not known here: nobody knows the name that it would have.
        if self._guard.lock_name(payload) != old:
            return
        new = self._guard.lock_name({**payload, "queue": news.changes["queue"]})
        if (news.from_server, old) == (news.to_server, new):
            return
        source, destination = self._config.redis_of(news.from_server), self._config.redis_of(news.to_server)
        if store.take_over(source, old, jid, destination, new):
            news.changes[KEY] = new

    def free(self, news: JobMoved) -> None:
        """Free the lock at the place where the job is not."""
        moving = news.moving
        old, jid = _held(moving.payload)
        new = moving.changes.get(KEY, "")
        if news.moved and (new or (old and moving.from_server != moving.to_server)):
            store.release(self._config.redis_of(moving.from_server), old, jid)
        elif new and not news.moved:
            store.release(self._config.redis_of(moving.to_server), new, jid)


def _held(payload: Mapping[str, Any]) -> tuple[str, str]:
    lock, jid = payload.get(KEY), payload.get("jid")
    return (lock, jid) if isinstance(lock, str) and isinstance(jid, str) else ("", "")
