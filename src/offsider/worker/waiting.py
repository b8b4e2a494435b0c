"""How a capsule waits for its next job, at no cost while there is none.

Three ways, the first that the server allows:

1. ``parked``: one BLMOVE waits at each of the first 16 queues. Exactly one process wakes for a job, and no
   command is sent meanwhile but the BLMOVEs' own renewal.
2. ``tracked``: the server tells when a queue is written to (CLIENT TRACKING). For the queues beyond the 16th,
   and for all of them where waiting pops cannot be called back. Wakes every idle process.
3. ``polled``: looking again, after 1 ms at first and 50 ms in the end. For servers and proxies that can do neither.

While a queue is paused it is neither parked at nor tracked, but looked at once a second. A server without memory
refuses parks; then it is polled until it takes them again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage.parking import Park, Parking
from offsider.storage.tracking import TRUSTED_SECONDS, Tracking

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.storage.working import Owner

logger = logging.getLogger("offsider")


class Way(Enum):
    """How idle threads wait."""

    PARKED = "parked: the server holds a pop for each of the first 16 queues"
    TRACKED = "tracked: the server tells when a queue has changed"
    POLLED = "polled: the server is asked up to 20 times a second, since it lets us neither park nor track"

    @property
    def described(self) -> str:
        return self.value


MOST_PARKS = 16
#: A park ends by itself after this much of a liveness life, since it cannot see whether its owner was fenced.
PARK_LIVES = 0.4
MOST_PARK_SECONDS = 25.0
PAUSED_SECONDS = 1.0
REFUSED_SECONDS = 1.0
POLL_FIRST_SECONDS = 0.001
POLL_MOST_SECONDS = 0.05
#: The watchdog takes a leader for stuck that does not stir for twice the time of a park.
LONGEST_SECONDS = 25.0


class Waiting:
    """Where the leader of one capsule sleeps. Only the leader calls it, but for `wake` and what it shows.

    Args:
        redis: makes the connections that wait.
        liveness_seconds: the owner's life, which bounds how long a park may wait.

    Attributes:
        parking: the parks; they are called back together with the next round trip.
        asleep: the leader sleeps, or is about to. Set before it looks for the last time whether it may.
        knows_pauses: what the last round trip said of paused queues still holds: the server would have told else.
        stirred: when the leader last noticed anything of the server, in monotonic seconds.
    """

    def __init__(self, redis: Redis, liveness_seconds: float) -> None:
        self._selector = DefaultSelector()
        self._tracking = Tracking(redis.settings)
        self._tracking_fileno = -1
        self._may_track = True
        self._pauses_read_at = 0.0
        self.knows_pauses = False
        self._way: Way | None = None
        self._park_seconds = min(MOST_PARK_SECONDS, liveness_seconds * PARK_LIVES)
        self._no_parks_until = 0.0
        self._poll_seconds = POLL_FIRST_SECONDS
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._pipe = threading.Lock()
        self._asking = threading.Lock()
        self._closed = False
        self._selector.register(self._reading, EVENT_READ)
        self._rebuilding = False
        self.parking = Parking(redis, self._selector)
        self.asleep = False
        self.stirred = time.monotonic()

    @property
    def straggling_seconds(self) -> float:
        """How long the server may still serve a park whose connection we lost."""
        return self._park_seconds + 2.0

    def way(self) -> Way:
        """Which way the server allows; asked once.

        Raises:
            RedisUnavailable: it cannot be asked.
        """
        with self._asking:
            if self._way is None:
                self._way = Way.PARKED if self.parking.may_call_back() else self._without_parks()
            return self._way

    def _without_parks(self) -> Way:
        try:
            self._tracking.open()
        except RedisRefused:
            self._may_track = False
        return Way.TRACKED if self._may_track else Way.POLLED

    def wake(self) -> None:
        """End the leader's sleep, from any thread."""
        with self._pipe, suppress(BlockingIOError):
            if not self._closed:
                os.write(self._writing, b"!")

    def rebuild(self) -> None:
        """Have the leader give up its connections and make new ones; from any thread."""
        self._rebuilding = True
        self.wake()

    def found(self) -> None:
        """There was a job: when there is none again, look again soon."""
        self._poll_seconds = POLL_FIRST_SECONDS

    def sleep(self, owner: Owner, queues: Sequence[str], paused: frozenset[str], may_sleep: Callable[[], bool]) -> None:
        """Sleep until there may be something to do.

        Args:
            owner: into whose lists parks move jobs.
            queues: all of the capsule's, the most important first.
            paused: those that nothing may be taken from.
            may_sleep: whether nothing has come up meanwhile; asked after others can see that this is `asleep`.

        Raises:
            RedisFailure: the server cannot be waited for.
        """
        self.asleep = True
        try:
            self._sleep(owner, [queue for queue in queues if queue not in paused], bool(paused), may_sleep)
        finally:
            self.asleep = False
            self._drain_pipe()
            self.stirred = time.monotonic()

    def _sleep(self, owner: Owner, queues: Sequence[str], some_paused: bool, may_sleep: Callable[[], bool]) -> None:  # noqa: FBT001
        if self._rebuilding:
            self._give_up_connections()
        parked, rest = self._divided(queues)
        if parked and not self._hears_of_pauses():
            return  # pauses are told from now on: look once more at what is paused
        wake_at = time.monotonic() + self._longest(rest, some_paused)
        while may_sleep():
            self.parking.park(owner, parked, self._park_seconds)
            if self._watch(rest):
                return
            now = time.monotonic()
            deadline = self.parking.next_deadline()
            until = wake_at if deadline is None else min(wake_at, deadline)
            if self._select(max(0.0, until - now)):
                return
            self.stirred = time.monotonic()
            self.parking.drop_overdue()
            if self.parking.doubtful or self.stirred >= wake_at:
                return

    def _hears_of_pauses(self) -> bool:
        """Have the server tell when queues are paused or unpaused; True when it did so ever since the last look.

        Without that, whoever took a job from a park has to ask whether its queue is paused.
        """
        if not self._may_track:
            return True
        heard = (
            self.knows_pauses
            and self._tracking.watches(self._tracking.keys.paused)
            and time.monotonic() - self._pauses_read_at < TRUSTED_SECONDS
        )
        if not heard:
            try:
                self._tracking.watch(self._tracking.keys.paused)
            except RedisRefused:
                self._may_track = False
            else:
                self.knows_pauses, self._pauses_read_at = True, time.monotonic()
            finally:
                self._register_tracking()
        return heard

    def _divided(self, queues: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Those to park at, and the rest."""
        if self.way() is not Way.PARKED or time.monotonic() < self._no_parks_until:
            return (), queues
        return queues[:MOST_PARKS], queues[MOST_PARKS:]

    def _longest(self, rest: Sequence[str], some_paused: bool) -> float:  # noqa: FBT001
        longest = PAUSED_SECONDS if some_paused else LONGEST_SECONDS
        # A server that refuses parks for want of memory is not to be trusted to tell us either.
        if rest and self._may_track and time.monotonic() >= self._no_parks_until:
            longest = min(longest, TRUSTED_SECONDS)
        elif rest:
            longest = min(longest, self._poll_seconds)
            self._poll_seconds = min(self._poll_seconds * 2, POLL_MOST_SECONDS)
        return longest

    def _watch(self, queues: Sequence[str]) -> bool:
        """Have the server tell of changes of these queues; True when one of them has jobs already."""
        if not queues or not self._may_track:
            return False
        if self._heed_changes():
            return True
        try:
            filled = self._tracking.watch_lists(queues)
        except RedisRefused as error:
            logger.warning("the server tells of no changes, so it is asked: %s", error)
            self._may_track = False
            return True
        finally:
            self._register_tracking()
        return self._heed_changes() or filled

    def _heed_changes(self) -> bool:
        try:
            changed = self._tracking.changed()
        except RedisUnavailable:
            # Whether the server is gone too, the next round trip will tell; what was not heard is looked for.
            changed = {self._tracking.keys.paused}
        finally:
            self.knows_pauses = self.knows_pauses and self._tracking.is_open
            self._register_tracking()  # before a park gets the number of a socket that was closed
        if self._tracking.keys.paused in changed:
            self.knows_pauses = False
        return bool(changed)

    def _register_tracking(self) -> None:
        fileno = self._tracking.fileno() if self._tracking.is_open else -1
        if fileno != self._tracking_fileno:
            if self._tracking_fileno >= 0:
                self._selector.unregister(self._tracking_fileno)
            if fileno >= 0:
                self._selector.register(fileno, EVENT_READ, self._tracking)
            self._tracking_fileno = fileno

    def _select(self, timeout_seconds: float) -> bool:
        """Wait, and read what came; True when that is a reason to look for jobs."""
        woken = False
        for key, _ in self._selector.select(timeout_seconds):
            if isinstance(key.data, Park):
                self.parking.read(key.data)
            elif isinstance(key.data, Tracking):
                woken = self._heed_changes() or woken
            else:
                woken = True
        return self._heed_failure() or woken or bool(self.parking.brought)

    def _heed_failure(self) -> bool:
        """Whether a park has failed. Whatever it was, the script is asked next: it works where parks are refused."""
        failure, self.parking.failure = self.parking.failure, None
        if isinstance(failure, RedisRefused):
            # OOM on a full server, UNBLOCKED when the server changes its role.
            self._no_parks_until = time.monotonic() + REFUSED_SECONDS
            if failure.code == "NOPERM":
                self._way = self._without_parks()
        return failure is not None

    def lost_a_park(self) -> bool:
        """Whether a park may have moved a job that nobody heard of, since this was asked last."""
        self._heed_failure()
        lost, self.parking.doubtful = self.parking.doubtful, False
        return lost

    def _drain_pipe(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass

    def _give_up_connections(self) -> None:
        self._rebuilding = False
        self._way = None
        self.parking.close()
        self._tracking.close()
        self.knows_pauses = False
        self._register_tracking()

    def close(self) -> None:
        """Give up every connection. Nobody may sleep here any more."""
        self._give_up_connections()
        self._selector.close()
        with self._pipe:
            self._closed = True
            os.close(self._reading)
            os.close(self._writing)
