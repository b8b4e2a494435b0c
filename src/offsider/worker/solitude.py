"""Lets a suspect job run alone, so that nobody beside it is taken for the one that kills processes.

A suspect has one strike less than would bury it. Whoever takes it back from the next dead process has to know
that the job was alone there, which means: the private lists of the process, of all its capsules, held one job.

1. `is_suspect` is asked for each job before it starts. It costs a search in its bytes, and one command only for
   a job that was interrupted before.
2. `alone` holds all fetchers of the process back: they claim nothing, call their parks back, give back what has
   not started, and go on acknowledging.
3. It waits until no claim is out and the lists hold this job alone, in two looks: then the job runs, and still nothing
   is claimed.
4. After a minute it gives up, at once when another suspect was first or the worker is leaving: then `put_last`
   sends the job behind all that wait in its queue.
5. At the end of the block the fetchers go on.

There is one `Solitude` in a launcher. A fetcher takes part as a `Claimer`; one that is none goes on claiming, and its
suspects run alone only by chance.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from offsider.core.errors import Fenced, RedisFailure
from offsider.storage import owners, strikes
from offsider.storage.owners import Lists

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.storage.working import Entry
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

PATIENCE_SECONDS = 60.0
#: One look may fall between the moment in which a fetcher asks and that in which it claims.
LOOKS = 2
LOOK_FIRST_SECONDS = 0.005
LOOK_MOST_SECONDS = 0.25

_INTERRUPTED = b'"interrupted_count"'


@runtime_checkable
class Claimer(Protocol):
    """What a fetcher shows to take part.

    Attributes:
        claims_allowed: asked before each claim and each park; set by `Solitude.join`.
    """

    claims_allowed: Callable[[], bool]

    def reconsider(self) -> None:
        """The answer of `claims_allowed` has changed: wake whoever leads. Called by the thread of a job."""
        ...

    @property
    def claims_out(self) -> bool:
        """Whether a claim or a park is under way that may still bring a job."""
        ...


class Solitude:
    """Who in this process has to be alone.

    Args:
        redis: where the owner's lists and the strikes are.
        queues: the queues of each capsule, as they are now.
        max_strikes: how many deaths bury a job; below 1 there are no suspects.
        leaving: whether the worker takes no more jobs.
        patience_seconds: how long a suspect waits for the others to end.
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
        self._claimers: list[Claimer] = []
        self._taken = threading.Lock()

    def join(self, claimer: Claimer) -> None:
        """Have a fetcher ask and be told, before it starts."""
        claimer.claims_allowed = self.claims_allowed
        self._claimers.append(claimer)

    def claims_allowed(self) -> bool:
        """Whether fetchers may claim and park."""
        return not self._taken.locked()

    def is_suspect(self, unit: UnitOfWork) -> bool:
        """Whether this job must not run beside others."""
        if _INTERRUPTED not in unit.raw or not self._enabled or unit.entry is None:
            return False
        try:
            return len(strikes.died_with(self._redis, unit.raw)) >= self._suspicious
        except RedisFailure:
            return False  # a run in company costs one more death at worst; not to run it costs the job

    @contextmanager
    def alone(self, unit: UnitOfWork) -> Generator[bool]:
        """Hold back all else for the time of the block; True when this job is the only one now."""
        if not self._taken.acquire(blocking=False):
            yield False
            return
        try:
            self._tell()
            yield self._wait(unit)
        finally:
            self._taken.release()
            self._tell()

    def put_last(self, unit: UnitOfWork) -> None:
        """Send a job that cannot be alone to the far end of its queue.

        Raises:
            RedisFailure: it is still in the private list.
        """
        entry = unit.entry
        if entry is not None:
            with suppress(Fenced):  # then others have it
                strikes.put_last(self._redis, entry)
            logger.info("a job of queue %s that processes died with could not run alone here; put it last", unit.queue)

    def _tell(self) -> None:
        for claimer in self._claimers:
            claimer.reconsider()

    def _wait(self, unit: UnitOfWork) -> bool:
        entry = unit.entry
        give_up = time.monotonic() + self._patience_seconds
        pause_seconds = LOOK_FIRST_SECONDS
        looks = 0
        while entry is not None and not self._leaving():
            looks = looks + 1 if self._is_alone(entry) else 0
            if looks >= LOOKS:
                return True
            if time.monotonic() >= give_up:
                break
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, LOOK_MOST_SECONDS)
        return False

    def _is_alone(self, entry: Entry) -> bool:
        # In this order: what a claim brings before it counts as over is then in the lists.
        if any(claimer.claims_out for claimer in self._claimers):
            return False
        try:
            return owners.held(self._redis, Lists(entry.owner.identity, self._queues())) <= 1
        except RedisFailure:
            return False
