"""Moves due jobs from the retry set and the schedule to their queues.

1. Acquire or renew the lease, which lets one process at a time move jobs. A process without it sleeps until it may be
   free. The holder reads a batch of due jobs from each set, by the server's clock; nothing is removed yet.
2. Prepare each payload: run client middleware (with the reason), and set a new ``enqueued_at``.
3. One script per set moves its batch. It skips a member that was removed, or that was given a later score. The same
   round trip reads the next batches.
4. Sleep until the next known score, for at most a second, and then ask whether a job has come before that score. So a
   job that was scheduled less than a second ahead may start up to a second late.
5. When quiet or stopped, release the lease.

The lease only avoids duplicate work. Ruby processes move jobs as well, and two of ours may do so briefly: only one of
them finds the member, and that one moves it. No member may stay at the head and block the rest: a malformed payload
moves to the dead set, wrapped, and a job whose middleware raises is postponed by a minute.
"""

from __future__ import annotations

import logging
import math
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, cast

from offsider.config.installation import Installation
from offsider.core.errors import InvalidJob, MalformedPayload, OffsiderError, RedisFailure
from offsider.core.malformed import listable, queue_of
from offsider.core.normalize import normalize
from offsider.core.payload import decode_object, no_job, stamp
from offsider.inspector import removal
from offsider.logs.structured import about_raw
from offsider.runtime.events import JobRemoved
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import due_jobs, job_sets, leases
from offsider.storage.due_jobs import Due
from offsider.storage.effects import Together
from offsider.storage.places import NOWHERE, Move, MoveResult, dead_set, key_of, move
from offsider.worker.alive.ownership import new_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsider.client import Client
    from offsider.config.config import Config
    from offsider.core.payload import JobPayload
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

BATCH = 100
#: A holder that renews its lease too late, because a job blocks the interpreter, loses it, which is harmless.
LEASE_SECONDS = 5.0
#: The share of a lease after which it is renewed.
RENEWED_AFTER = 0.7
#: Maximum time between two reads of the lease holder.
POLL_SECONDS = 1.0
#: Random delay of processes that wait for the lease, so that not all of them request it at once when it expires.
SPREAD_SECONDS = 0.5
PUT_OFF_SECONDS = 60.0

Place = Literal["schedule", "retry"]


class Scheduler(Loop):
    """The service that enqueues due jobs.

    Args:
        redis: server of the sets.
        client: prepares payloads; its middleware runs again for each job.
    """

    def __init__(self, config: Config, redis: Redis, client: Client) -> None:
        self._config = config
        self._redis = redis
        self._client = client
        self._dead = dead_set(config.worker.dead_set_limits)
        self._sets: tuple[Place, ...] = ("retry", "schedule")
        self._name = new_identity()
        self._holds_lease = False
        self._renew_at = 0.0
        #: Read together with the last move, and not moved yet.
        self._ahead: Sequence[Due | OffsiderError] | None = None
        #: The last read, if nothing was due, and the time at which its next job is due.
        self._known: Sequence[Due] = ()
        self._due_at = 0.0
        self._outage = Outage("scheduler", config)
        super().__init__("offsider-scheduler", self.tick, config.handle_error, finish=self._give_back)

    def tick(self) -> float:
        """Move a batch of due jobs out of each set, and return the seconds until the next call."""
        with self._outage:
            left_seconds = self._acquire()
            if left_seconds:
                return left_seconds + random.uniform(0, SPREAD_SECONDS)
            sets, self._ahead = self._ahead, None
            if sets is None:
                if (
                    self._known
                    and time.monotonic() < self._due_at
                    and not due_jobs.has_earlier(self._redis, self._known)
                ):
                    return self._pause()
                sets = self._exchange([])
            return self._work(sets)
        self._known, self._ahead = (), None
        return POLL_SECONDS

    def _acquire(self) -> float:
        """Acquire the lease, or renew it in time. Return the seconds until that of another scheduler can end."""
        now, key = time.monotonic(), self._redis.keys.schedule_lease
        if self._holds_lease and now < self._renew_at:
            return 0.0
        if not (self._holds_lease and leases.renew(self._redis, key, self._name, LEASE_SECONDS)):
            self._known, self._ahead = (), None  # another scheduler may have moved them
            left_seconds = leases.acquire(self._redis, key, self._name, LEASE_SECONDS)
            self._holds_lease = left_seconds == 0
            if left_seconds:
                return left_seconds
        self._renew_at = now + LEASE_SECONDS * RENEWED_AFTER
        return 0.0

    def _work(self, sets: Sequence[Due | OffsiderError]) -> float:
        # Handle each set separately: if one key has the wrong type, the other set must still work.
        batches = [
            (place, self._prepared(place, due.members))
            for place, due in zip(self._sets, sets, strict=True)
            if isinstance(due, Due) and due.members
        ]
        if not batches:
            return self._look_later(sets)
        after = self._exchange([(place, moves) for place, moves in batches if moves])
        if not any(isinstance(due, Due) and due.members for due in after):
            return self._look_later(after)
        self._ahead = after
        return 0.0

    def _exchange(self, batches: Sequence[tuple[str, Sequence[Move]]]) -> Sequence[Due | OffsiderError]:
        results, sets = due_jobs.move_and_look(self._redis, batches, BATCH)
        for (place, moves), result in zip(batches, results, strict=True):
            if isinstance(result, OffsiderError):
                raise result
            self._put_off_refused(place, moves, result)
        return sets

    def _put_off_refused(self, place: str, moves: Sequence[Move], results: Sequence[MoveResult]) -> None:
        for refused, moved in zip(moves, results, strict=True):
            if moved is MoveResult.REFUSED:
                fields = about_raw(refused.job, str(refused.detail))
                logger.error(
                    "queue:%s is not a list, so its due job cannot move there; next attempt in a minute",
                    refused.detail,
                    extra={"fields": fields},
                )
                self._put_off(place, refused.job)

    def _look_later(self, sets: Sequence[Due | OffsiderError]) -> float:
        for due in sets:
            if isinstance(due, OffsiderError):
                raise due
        self._known = [due for due in sets if isinstance(due, Due)]
        self._due_at = time.monotonic() + min((due.next_in_seconds for due in self._known), default=math.inf)
        return self._pause()

    def _pause(self) -> float:
        return max(0.0, min(POLL_SECONDS, self._due_at - time.monotonic()))

    def _give_back(self) -> None:
        if not self._holds_lease:
            return
        with suppress(RedisFailure):  # it expires by itself
            leases.release(self._redis, self._redis.keys.schedule_lease, self._name)

    def _prepared(self, place: Place, members: Sequence[bytes]) -> list[Move]:
        return [one for member in members if (one := self._prepare(place, member)) is not None]

    def _prepare(self, place: Place, member: bytes) -> Move | None:
        try:
            found = decode_object(member)
            payload = cast("JobPayload", found)
            queue = normalize(payload).get("queue")
            if not queue:
                raise MalformedPayload(member, "queue is missing")  # noqa: TRY301 - one way out for both
        except MalformedPayload as error:
            queue = queue_of(member)
            if not queue:
                self._bury(place, member, error)
            return Move(member, member, queue) if queue else None  # move the bytes unchanged: they cannot be re-encoded
        if no_job(found):  # the workers of that queue will reject it; middleware expects jobs
            return Move(member, member, queue)
        try:
            prepared = self._client.reenqueue(payload, place)
        except InvalidJob:
            # The payload from the middleware cannot be encoded: move the job unchanged.
            return Move(member, member, queue)
        except Exception as error:  # noqa: BLE001 - middleware of users may raise anything
            self._config.handle_error(error, {"context": f"moving a job out of {place}", "job": payload})
            self._put_off(place, member)
            return None
        if prepared is None:
            logger.info(
                "deleted job %s from %s, because client middleware canceled its push",
                payload.get("jid"),
                place,
                extra={"fields": about_raw(member, queue)},
            )
            self._drop(place, member)
            return None
        return Move(member, prepared.raw, prepared.queue)

    def _drop(self, place: str, member: bytes) -> None:
        server = Installation.of(self._config)
        removed = JobRemoved(member, place, "delete", server.name)
        redis = Together(self._redis, removal.effects_of(server, removed))
        if move(redis, place, [Move(member)], NOWHERE, only_due=True) == [MoveResult.DONE]:
            self._config.events.emit("job_removed", removed)

    def _bury(self, place: str, member: bytes, error: MalformedPayload) -> None:
        stored = listable(member, stamp(self._config.clock.now(), self._config.redis.wire_version))
        if move(self._redis, place, [Move(member, stored)], self._dead, only_due=True) == [MoveResult.DONE]:
            self._config.handle_error(error, {"context": f"a malformed payload in {place}", "jobstr": member})

    def _put_off(self, place: str, member: bytes) -> None:
        job_sets.defer(self._redis, key_of(self._redis.keys, place), member, PUT_OFF_SECONDS)
