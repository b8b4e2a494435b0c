"""Compares what lies in the private lists with what is held, after a reply was lost (rules 5 and 8).

1. `doubt` asks for a comparison, and for a second one when the server cannot serve the lost connection any more.
2. `run` counts first, and reads payloads only when the counts differ.
3. An acknowledgement without a reply is taken as carried out when fewer equal copies are listed than held.
4. What is listed and not held goes back to its queue, without a strike: no process died of it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisRefused
from offsider.core.wording import counted
from offsider.storage import working

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.storage.working import Entry, Owner
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.held import Held
    from offsider.worker.ownership import Ownership
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

#: Beats in a row that have to see more jobs listed than held.
MISMATCHES = 2


class Reconciler:
    """The bookkeeping of one fetcher, checked against the server's."""

    def __init__(self, config: Config, capsule: Capsule, ownership: Ownership, held: Held) -> None:
        self._config = config
        self._capsule = capsule
        self._redis: Redis = capsule.redis
        self._ownership = ownership
        self._held = held
        self._at: list[float] = []
        self._mismatches = 0

    @property
    def due(self) -> bool:
        at = self._at
        return bool(at) and at[0] <= time.monotonic()

    def doubt(self, again_after_seconds: float) -> None:
        """A reply was lost: compare before the next claim, and once more a little later."""
        now = time.monotonic()
        self._at = [now, max([now + again_after_seconds, *self._at])]

    def mismatch(self) -> bool:
        """Called at each beat: True when two in a row found more jobs listed than held."""
        owner = self._ownership.owner(self._capsule.name)
        listed = working.count(self._redis, owner, self._ownership.registered(self._capsule.name))
        self._mismatches = self._mismatches + 1 if listed > self._held.of(owner.identity).total() else 0
        if self._mismatches < MISMATCHES:
            return False
        self._mismatches = 0
        return True

    def run(self, finished: Iterable[UnitOfWork]) -> list[UnitOfWork]:
        """Compare; nobody may claim or acknowledge meanwhile, and no claim may be unanswered.

        Args:
            finished: units whose acknowledgement has not been confirmed.

        Returns:
            Those of them that were carried out though their reply was lost.
        """
        owner = self._ownership.owner(self._capsule.name)
        queues = self._ownership.registered(self._capsule.name)
        # What is held is read first: a job settled meanwhile is then known, and not taken for a lost one.
        held = self._held.of(owner.identity)
        carried_out: list[UnitOfWork] = []
        doubtful = [unit for unit in finished if unit.doubtful]
        # Counts cannot tell a lost reply that took as many jobs away as it brought.
        if doubtful or working.count(self._redis, owner, queues) != held.total():
            listed = Counter(working.contents(self._redis, owner, queues))
            carried_out = self._carried_out(doubtful, held, listed)
            self._give_back(owner, list((listed - held).elements()))
            # Last: what failed half-way is to be compared again.
            for unit in doubtful:
                unit.doubtful = False
        self._at.pop(0)
        return carried_out

    def _carried_out(
        self, doubtful: Iterable[UnitOfWork], held: Counter[Entry], listed: Counter[Entry]
    ) -> list[UnitOfWork]:
        found: list[UnitOfWork] = []
        for unit in doubtful:
            entry = unit.entry
            if entry is not None and listed[entry] < held[entry]:
                held[entry] -= 1
                found.append(unit)
        return found

    def _give_back(self, owner: Owner, unknown: Sequence[Entry]) -> None:
        try:
            working.put_back(self._redis, [(entry, entry.raw) for entry in reversed(unknown)])
        except Fenced:
            # Then whoever fenced us gives them back.
            self._ownership.renew(owner.identity)
        except RedisRefused as error:
            # One queue that takes no jobs must not end all claims; the next beats find its job again.
            self._config.handle_error(error, {"context": "giving back jobs whose claim had lost its reply"})
        else:
            if unknown:
                logger.warning("gave back %s whose claim had lost its reply", counted(len(unknown), "job"))
