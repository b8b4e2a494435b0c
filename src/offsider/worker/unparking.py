"""Makes parked jobs due at once when this worker can run them: at its start, and when it has learnt further ones.

At each heartbeat one small key says whether jobs are parked, and which. Only when one of them is declared here the
part of the schedule is read that parked jobs lie in, in pages, by a thread of its own:

1. One process at a time on each server does that, and at most `MOST` members.
2. Workers that can run the same and serve the same queues are one group. What one of them has looked for none of
   them looks for again before a further job of those kinds was parked.
3. After looks that found nothing, or did not come to the end, the group rests, for longer each time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from offsider.core.compression import decode_plain
from offsider.core.errors import MalformedPayload
from offsider.core.payload import new_jid
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.storage import clocks, parked
from offsider.storage.parked import Walk, wanted_by
from offsider.storage.turns import hold_turn
from offsider.wiring.service import Loop
from offsider.worker.ability import why_not

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.storage.parked import Seen, Wanted
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config
    from offsider.worker.ability import Abilities

logger = logging.getLogger("offsider")

BATCH = 100
IDLE_SECONDS = 3600.0
TURN = "unparking"
LEASE_SECONDS = 15.0
#: Until a process asks again that had to wait for its turn.
QUEUE_SECONDS = 2.0
#: Members of the schedule that one look reads, and after how many the turn is prolonged.
MOST = 200_000
STRETCH = 2_000
#: The rest after a look that found nothing; it doubles up to the longest.
REST_SECONDS = 10.0
LONGEST_REST_SECONDS = 320.0
_DOUBLINGS = 5


class Unparking:
    """The service of one worker.

    Args:
        quiet: tells whether the worker takes no more jobs.
    """

    def __init__(self, config: Config, redis: Redis, abilities: Abilities, *, quiet: Callable[[], bool]) -> None:
        self._config = config
        self._redis = redis
        self._abilities = abilities
        self._quiet = quiet
        self._holder = new_jid()
        self._ending = threading.Event()
        self._loop = Loop("offsider-unparking", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.join = self._loop.join
        self.wait_for_tick = self._loop.wait_for_tick

    def stop(self) -> None:
        self._ending.set()
        self._loop.stop()

    def look(self) -> None:
        """Called at each heartbeat, when others know what this worker can run. Raises RedisFailure."""
        self._abilities.flush()
        if self._sought()[0]:
            self._loop.wake()

    def tick(self) -> float:
        """Go once through what is parked, if that is worth while and nobody else does it now."""
        if not self._sought()[0]:
            return IDLE_SECONDS
        if not hold_turn(self._redis, TURN, self._holder, LEASE_SECONDS):
            return QUEUE_SECONDS
        try:
            # Another of the group may have done it while this one waited.
            kinds, last = self._sought()
            if kinds:
                self._walk(kinds, last)
        finally:
            hold_turn(self._redis, TURN, self._holder, 0.001)
        return IDLE_SECONDS

    def _sought(self) -> tuple[Mapping[Wanted, Seen], Walk]:
        """What to look for now, and the last look of this group."""
        kinds = self._own(self._current())
        if not kinds:
            return {}, Walk()
        last = parked.last_walk(self._redis, self._group())
        if last.sought == _summary(kinds) or last.rest_until > clocks.look(self._redis)[0]:
            return {}, last
        return kinds, last

    def _current(self) -> dict[Wanted, Seen]:
        """What others say that is parked, less what nobody has tried again for too long."""
        kinds = parked.kinds(self._redis)
        before = self._config.clock.now() - parked.EXPIRY_SECONDS
        for wanted in [wanted for wanted, seen in kinds.items() if seen.at < before]:
            parked.forget(self._redis, wanted)
            del kinds[wanted]
        return kinds

    def _walk(self, kinds: Mapping[Wanted, Seen], last: Walk) -> None:
        found = dict.fromkeys(kinds, 0)
        batch: list[bytes] = []
        read = 0
        for raw in self._members():
            read += 1
            wanted = self._runnable(raw) if parked.is_parked(raw) else None
            if wanted in found:
                found[wanted] += 1
                batch.append(raw)
            if len(batch) == BATCH:
                parked.hasten(self._redis, batch)
                batch.clear()
        if batch:
            parked.hasten(self._redis, batch)
        if not self._is_over():
            self._conclude(kinds, found, last, is_whole=read < MOST)

    def _members(self) -> Iterator[bytes]:
        """What lies where parked jobs do, while this worker goes on and has the turn."""
        for number, raw in enumerate(islice(parked.each(self._redis), MOST), 1):
            if self._is_over():
                return
            if number % STRETCH == 0:
                hold_turn(self._redis, TURN, self._holder, LEASE_SECONDS)
            yield raw

    def _is_over(self) -> bool:
        return self._ending.is_set() or self._quiet()

    def _conclude(
        self, kinds: Mapping[Wanted, Seen], found: Mapping[Wanted, int], last: Walk, *, is_whole: bool
    ) -> None:
        for wanted, count in found.items():
            if count:
                logger.info("%s of %s waited for a worker like this one", counted(count, "job"), wanted.name)
        fruitless = 0 if is_whole and any(found.values()) else last.fruitless + 1
        rest = min(REST_SECONDS * 2 ** min(fruitless - 1, _DOUBLINGS), LONGEST_REST_SECONDS) if fruitless else 0.0
        sought = _summary(kinds) if is_whole else ""
        walk = Walk(sought, fruitless, clocks.look(self._redis)[0] + rest)
        parked.note_walk(self._redis, self._group(), walk)

    def _group(self) -> str:
        """The same for all workers that can run the same jobs from the same queues."""
        capsules = self._config.capsules.values()
        queues = sorted({queue for capsule in capsules for queue in ("*" if capsule.all_queues else capsule.queues)})
        return _digest([queues, registry.signatures()])

    def _own(self, kinds: Mapping[Wanted, Seen]) -> dict[Wanted, Seen]:
        """The kinds that this worker may be able to run."""
        if not kinds or self._quiet():
            return {}
        return {wanted: seen for wanted, seen in kinds.items() if registry.peek(wanted.name) is not None}

    def _runnable(self, raw: bytes) -> Wanted | None:
        """What a parked job wants, if this worker has it and serves its queue."""
        try:
            payload = decode_plain(raw)
        except MalformedPayload:
            return None
        serves = self._serves(payload.get("queue", ""))
        return wanted_by(payload) if serves and _can_run(payload) else None

    def _serves(self, queue: str) -> bool:
        return any(capsule.all_queues or queue in capsule.queues for capsule in self._config.capsules.values())


def _can_run(payload: JobPayload) -> bool:
    return not why_not(registry.peek(payload["class"]), payload)


def _summary(kinds: Mapping[Wanted, Seen]) -> str:
    """Another one as soon as a further job was parked that was made for this worker.

    Of a kind that was made for other parameters the jobs are tried once, for they may fit.
    """
    parts = ((wanted.name, wanted.signature, seen.at if _is_ours(wanted) else 0.0) for wanted, seen in kinds.items())
    return _digest(sorted(parts))


def _is_ours(wanted: Wanted) -> bool:
    declared = registry.peek(wanted.name)
    return declared is not None and wanted.signature in ("", declared.signature.digest)


def _digest(told: object) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
