"""Moves jobs that are due from the retry set and the schedule to their queues.

1. Read what is due by the server's clock, a batch at a time; nothing is removed yet.
2. Prepare each payload anew: client middleware (told the reason), a new ``enqueued_at``.
3. One script moves the batch: a member that is gone, or was given a later score, is left alone.
4. Sleep until the next score, at most a second.

Many processes may do this side by side, Ruby ones too: the member's presence decides who won. Nothing may
stay at the head and block the rest: bytes that are no job go to the dead set as they are, and a job whose
middleware raises is put off by a minute.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from offsider.core.errors import InvalidJob, MalformedPayload, RedisFailure
from offsider.core.payload import decode
from offsider.storage import job_sets
from offsider.storage.job_sets import Move, Moved
from offsider.storage.working import DeadSetLimits
from offsider.wiring.service import Loop
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.client import Client
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

BATCH = 100
LONGEST_SLEEP_SECONDS = 1.0
PUT_OFF_SECONDS = 60.0

Reason = Literal["schedule", "retry"]


class Scheduler:
    """The service that makes jobs run when they are due.

    Args:
        redis: where the sets are.
        client: prepares payloads; its middleware runs once more for each job.
    """

    def __init__(self, config: Config, redis: Redis, client: Client) -> None:
        self._config = config
        self._redis = redis
        self._client = client
        self._limits = DeadSetLimits(config.worker.dead_max_jobs, config.worker.dead_timeout_seconds)
        self._outage = Outage("scheduler", config)
        self._loop = Loop("offsider-scheduler", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.join = self._loop.join

    def tick(self) -> float:
        """Move what is due; answers the seconds until there is more to do."""
        keys = self._redis.keys
        pauses: list[float] = []
        failure: RedisFailure | None = None
        # Each set by itself: a key of the wrong type in the place of one must not hold up the other.
        sets: tuple[tuple[str, Reason], ...] = ((keys.retry, "retry"), (keys.schedule, "schedule"))
        for sorted_set, reason in sets:
            try:
                pauses.append(self._enqueue_due(sorted_set, reason))
            except RedisFailure as error:
                failure = error
        if failure is None:
            self._outage.over()
        else:
            self._outage.noticed(failure)
        return min([LONGEST_SLEEP_SECONDS, *pauses])

    def _enqueue_due(self, sorted_set: str, reason: Reason) -> float:
        """One batch, so that the other set has its turn too."""
        due = job_sets.due(self._redis, sorted_set, BATCH)
        moves = [move for member in due.members if (move := self._prepare(sorted_set, reason, member)) is not None]
        if moves:
            results = job_sets.enqueue(self._redis, sorted_set, moves, only_due=True)
            for move, moved in zip(moves, results, strict=True):
                if moved is Moved.REFUSED:
                    logger.error("queue:%s is not a list; a job that is due waits", move.queue)
                    self._put_off(sorted_set, move.member)
        return LONGEST_SLEEP_SECONDS if due.next_in_seconds is None else max(0.0, due.next_in_seconds)

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
