"""Runs a suspected poison pill alone, so that no other job is blamed when the process dies.

A suspect is a job that is one strike short of the dead set. The worker that reclaims it from the next dead process must
know that it ran alone there: the private lists of all capsules of that process contained one job.

1. The processor calls `is_suspect` for each job before the run. It searches the payload's bytes, and sends one command
   only for a job that was interrupted before.
2. `alone` suspends all fetchers of the process: they stop claiming, cancel their blocking pops and requeue jobs that
   have not started. They continue to acknowledge finished jobs.
3. It waits until no claim is under way and the lists contain only this job, in two consecutive checks. Then the job
   runs while claims remain suspended.
4. It gives up after a minute, or at once if another suspect is running or the worker is stopping. Then the
   processor requeues the job at the tail of its queue.
5. At the end of the block the fetchers resume.

A worker has one `Isolation`. Jobs of a fetcher without private lists are never suspects.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.logs.structured import about_raw
from offsider.storage import owners, strikes
from offsider.storage.owners import Lists

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.storage.working import Owner
    from offsider.worker.fetch.fetcher import Fetcher
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

PATIENCE_SECONDS = 60.0
#: Number of consecutive checks: a single one may run after a fetcher called `claims_allowed`, but before it claims.
MIN_CHECKS = 2
FIRST_POLL_SECONDS = 0.005
MAX_POLL_SECONDS = 0.25

_INTERRUPTED = b'"interrupted_count"'


class Isolation:
    """Gives suspects exclusive use of one process.

    Args:
        redis: server of the private lists and the strikes.
        queues: returns the current queues of each capsule.
        max_strikes: deaths after which a job moves to the dead set; below 1 there are no suspects.
        leaving: returns whether the worker fetches no more jobs.
        patience_seconds: how long a suspect waits for other jobs to finish.
    """

    def __init__(
        self,
        redis: Redis,
        queues: Callable[[], Mapping[str, Sequence[str]]],
        *,
        max_strikes: int,
        leaving: Callable[[], bool],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._redis = redis
        self._queues = queues
        self._enabled = max_strikes >= 1
        self._suspicious = max(1, max_strikes - 1)
        self._leaving = leaving
        self._patience_seconds = patience_seconds
        self._fetchers: list[Fetcher] = []
        self._taken = threading.Lock()

    def join(self, fetcher: Fetcher) -> None:
        """Add a fetcher before it starts. It calls `claims_allowed`, and is woken when the result changes."""
        self._fetchers.append(fetcher)

    def claims_allowed(self) -> bool:
        """Return whether fetchers may claim jobs and wait in blocking pops."""
        return not self._taken.locked()

    def is_suspect(self, unit: UnitOfWork) -> bool:
        """Return whether this job must run alone."""
        if unit.raw.find(_INTERRUPTED) < 0 or not self._enabled or unit.owner is None:
            return False
        try:
            return len(strikes.died_with(self._redis, unit.raw)) >= self._suspicious
        except RedisFailure:
            return False  # without isolation the job may kill one more process; if it never ran, it would be lost

    @contextmanager
    def alone(self, unit: UnitOfWork) -> Generator[bool]:
        """Suspend all fetchers during the block; yield True if this job is the only one now.

        If it yields False, the caller requeues the job at the tail of its queue.
        """
        granted = False
        if self._taken.acquire(blocking=False):
            try:
                self._tell()
                granted = self._wait(unit)
                yield granted
            finally:
                self._taken.release()
                self._tell()
        else:
            yield False
        if not granted:
            logger.info(
                "a suspected poison pill could not run alone in this worker; requeued it to the tail of queue %s",
                unit.queue,
                extra={"fields": about_raw(unit.raw, unit.queue)},
            )

    def _tell(self) -> None:
        for fetcher in self._fetchers:
            fetcher.wake()

    def _wait(self, unit: UnitOfWork) -> bool:
        owner = unit.owner
        give_up = time.monotonic() + self._patience_seconds
        pause_seconds = FIRST_POLL_SECONDS
        checks = 0
        while owner is not None and not self._leaving():
            checks = checks + 1 if self._is_alone(owner) else 0
            if checks >= MIN_CHECKS:
                return True
            if time.monotonic() >= give_up:
                break
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, MAX_POLL_SECONDS)
        return False

    def _is_alone(self, owner: Owner) -> bool:
        # Check claims first: a job that arrives before its claim counts as finished is then in the lists.
        if any(fetcher.claims_out for fetcher in self._fetchers):
            return False
        try:
            return owners.held(self._redis, Lists(owner.identity, self._queues())) <= 1
        except RedisFailure:
            return False
