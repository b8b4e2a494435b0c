"""Writes dispositions, and retries until the server accepts them or the worker exits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from offsider.core.errors import Fenced, RedisFailure, RedisUnavailable
from offsider.logs.structured import about_raw
from offsider.storage.effects import run_alone
from offsider.worker import outage
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.storage.effects import Effect
    from offsider.storage.redis import Redis
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")


class Writes:
    """The writes of one fetcher."""

    def __init__(self, context: FetcherContext) -> None:
        self._abandoned = context.abandoned
        self._outage = Outage(f"storing outcomes of jobs of capsule {context.capsule.name}", context.config)

    def until_taken(
        self, unit: UnitOfWork, write: Callable[[], bool], was_written: Callable[[], bool] = lambda: False
    ) -> bool | None:
        """Write, and retry after failures of the server.

        Args:
            write: returns False if another process owns the job.
            was_written: called after a lost reply; returns whether the server executed the write.

        Returns:
            The result of ``write``; None if the worker had to exit before it succeeded.
        """
        doubtful = False
        while True:
            try:
                written = (doubtful and was_written()) or write()
            except Fenced:
                written = False
            except RedisFailure as error:
                doubtful = doubtful or (isinstance(error, RedisUnavailable) and error.ambiguous)
                self._outage.noticed(error)
                if self._abandoned.wait(outage.RETRY_SECONDS):
                    logger.error(  # noqa: TRY400 - reported already
                        "cannot store the outcome of a job of queue %s: the job will run again",
                        unit.queue,
                        extra={"fields": about_raw(unit.raw, unit.queue)},
                    )
                    return None
                continue
            self._outage.over()
            return written

    def effects(self, redis: Redis, unit: UnitOfWork, effects: Sequence[Effect]) -> Sequence[Any]:
        """Run the effects of a disposition that no script writes, and return their replies; none on a failure."""
        try:
            return run_alone(redis, effects, unit.jid)
        except RedisFailure as error:
            self._outage.noticed(error)
            return ()
