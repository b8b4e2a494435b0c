"""Moves jobs that are due from the retry set and the schedule to their queues, at their time.

1. Take the lease, under which one process at a time moves, and read what is due by the server's clock in both sets,
   a batch of each; nothing is removed yet. Who does not get the lease sleeps until it may be free.
2. Prepare each payload anew: client middleware (told the reason), a new ``enqueued_at``.
3. One script for each set moves its batch: a member that is gone, or was given a later score, is left alone. In the
   same round trip the next batches are read.
4. Sleep until the next score. An earlier job wakes the holder of the lease, since the server tells of changes to the
   sets; where it does not, look again each second.
5. When quiet or stopped, give the lease back: another process wakes and takes it.

The lease only spares work. Ruby's processes move as well, and two of ours may for a moment: the member's presence
decides who won. Nothing may stay at the head and block the rest: bytes that are no job go to the dead set as they are,
and a job whose middleware raises is put off by a minute.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING, Literal

from offsider.core.errors import InvalidJob, MalformedPayload, OffsiderError, RedisFailure
from offsider.core.payload import decode
from offsider.storage import agenda, job_sets
from offsider.storage.agenda import Agenda, Lease
from offsider.storage.job_sets import Move, Moved
from offsider.storage.working import DeadSetLimits
from offsider.wiring.service import Loop
from offsider.worker.lookout import Lookout
from offsider.worker.outage import Outage
from offsider.worker.ownership import new_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsider.client import Client
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

BATCH = 100
LEASE_SECONDS = 5.0
RENEW_SECONDS = LEASE_SECONDS / 2
#: The longest sleep of a holder whom the server does not tell of changes.
POLL_SECONDS = 1.0
#: Over which those who wait for another's lease are spread, so that not all look at once when it ends.
SPREAD_SECONDS = 0.5
PUT_OFF_SECONDS = 60.0

Reason = Literal["schedule", "retry"]


class Scheduler:
    """The service that makes jobs run when they are due.

    Args:
        redis: where the sets are.
        client: prepares payloads; its middleware runs once more for each job.
    """

    def __init__(self, config: Config, redis: Redis, client: Client) -> None:
        keys = redis.keys
        self._config = config
        self._redis = redis
        self._client = client
        self._limits = DeadSetLimits(config.worker.dead_max_jobs, config.worker.dead_timeout_seconds)
        self._sets: tuple[tuple[str, Reason], ...] = ((keys.retry, "retry"), (keys.schedule, "schedule"))
        self._lease = Lease(new_identity(), int(LEASE_SECONDS * 1000))
        self._holds = False
        self._ahead: Agenda | None = None
        self._lookout = Lookout(redis, [keys.retry, keys.schedule], keys.schedule_free)
        self._outage = Outage("scheduler", config)
        self._ending = threading.Event()
        self._loop = Loop("offsider-scheduler", self._turn, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.join = self._loop.join

    def stop(self) -> None:
        self._ending.set()
        self._lookout.end()
        self._loop.wake()

    def _turn(self) -> float | None:
        if not self._ending.is_set():
            pause_seconds = self.tick()
            if pause_seconds > 0:
                self._lookout.sleep(pause_seconds)
        if not self._ending.is_set():
            return 0.0
        self._give_back()
        return None

    def tick(self) -> float:
        """Move a batch of what is due out of each set; answers the seconds until there is more to do."""
        ahead, self._ahead = self._ahead, None
        try:
            return self._work(ahead or self._exchange([]))
        except RedisFailure as error:
            self._outage.noticed(error)
            return POLL_SECONDS

    def _work(self, now: Agenda) -> float:
        # Each set by itself: a key of the wrong type in the place of one must not hold up the other.
        batches = [
            (sorted_set, self._prepared(sorted_set, reason, due.members))
            for (sorted_set, reason), due in zip(self._sets, now.sets, strict=False)
            if isinstance(due, agenda.Due) and due.members
        ]
        if not batches:
            return self._pause(now)
        self._ahead = self._exchange([(sorted_set, moves) for sorted_set, moves in batches if moves])
        return 0.0 if self._ahead.is_due else self._pause(self._ahead)

    def _exchange(self, batches: Sequence[tuple[str, Sequence[Move]]]) -> Agenda:
        results, now = agenda.turn(self._lookout.exchange, self._redis.keys, self._lease, batches, BATCH)
        self._holds = now.held
        for (sorted_set, moves), result in zip(batches, results, strict=True):
            if isinstance(result, OffsiderError):
                raise result
            self._put_off_refused(sorted_set, moves, result)
        return now

    def _put_off_refused(self, sorted_set: str, moves: Sequence[Move], results: Sequence[Moved]) -> None:
        for move, moved in zip(moves, results, strict=True):
            if moved is Moved.REFUSED:
                logger.error("queue:%s is not a list; a job that is due waits", move.queue)
                self._put_off(sorted_set, move.member)

    def _pause(self, now: Agenda) -> float:
        self._ahead = None
        if not now.held:
            self._outage.over()
            return now.free_in_seconds + random.uniform(0, SPREAD_SECONDS)
        pause_seconds = RENEW_SECONDS if self._lookout.is_told else POLL_SECONDS
        failure: OffsiderError | None = None
        for due in now.sets:
            if isinstance(due, OffsiderError):
                failure = due
            elif due.next_in_seconds is not None:
                pause_seconds = min(pause_seconds, due.next_in_seconds)
        if failure is None:
            self._outage.over()
        else:
            self._outage.noticed(failure)
        return max(0.0, pause_seconds)

    def _give_back(self) -> None:
        try:
            if self._holds:
                agenda.hand_over(self._redis, self._lease.holder)
        except RedisFailure as error:
            logger.debug("the lease of the scheduler ends by itself: %s", error)
        finally:
            self._lookout.close()

    def _prepared(self, sorted_set: str, reason: Reason, members: Sequence[bytes]) -> list[Move]:
        return [move for member in members if (move := self._prepare(sorted_set, reason, member)) is not None]

    def _prepare(self, sorted_set: str, reason: Reason, member: bytes) -> Move | None:
        try:
            payload = decode(member)
            queue = payload.get("queue")
            if not queue:
                raise MalformedPayload(member, "queue is missing")  # noqa: TRY301 - one way out for both
        except MalformedPayload as error:
            self._bury(sorted_set, member, error)
            return None
        try:
            prepared = self._client.reenqueue(payload, reason)
        except InvalidJob:
            # What middleware made of it cannot be written: the job moves as it is.
            return Move(member, member, queue)
        except Exception as error:  # noqa: BLE001 - middleware of users may raise anything
            self._config.handle_error(error, {"context": f"moving a job out of {sorted_set}", "job": payload})
            self._put_off(sorted_set, member)
            return None
        if prepared is None:
            logger.info("client middleware stopped job %s on its way out of %s", payload.get("jid"), sorted_set)
            job_sets.drop(self._redis, sorted_set, member)
            return None
        return Move(member, prepared.raw, prepared.queue)

    def _bury(self, sorted_set: str, member: bytes, error: MalformedPayload) -> None:
        if job_sets.kill(self._redis, sorted_set, member, self._limits, only_due=True):
            self._config.handle_error(error, {"context": f"a malformed payload in {sorted_set}", "jobstr": member})

    def _put_off(self, sorted_set: str, member: bytes) -> None:
        job_sets.defer(self._redis, sorted_set, member, PUT_OFF_SECONDS)
