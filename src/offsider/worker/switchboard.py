"""What this process knows of switches: classes whose jobs are dropped or put off instead of run.

1. The board is read before the first claim, and again whenever the server tells of a change. Where it does not tell,
   it is read each second.
2. A job that comes up is looked for on the board before its class, the reloader and all middleware. While there is no
   switch, that is one look at an empty mapping.
3. How many jobs were acted on is counted here and written once a second. A switch whose time has passed is taken away
   by whoever reads it first.

While the server is away the last board holds.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsider.core.errors import OffsiderError, RedisFailure
from offsider.jobs import registry
from offsider.storage import quarantine, switches
from offsider.storage.switches import Switch
from offsider.wiring.service import Loop
from offsider.worker.lookout import Lookout
from offsider.worker.outage import Outage
from offsider.worker.outcome import Deferred, Dropped

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext

logger = logging.getLogger("offsider")

#: Between two readings when the server does not tell, and while there is something to count.
POLL_SECONDS = 1.0
#: The same when it tells: a connection that broke without a word shows in a reading only.
TOLD_SECONDS = 5.0


class Switchboard:
    """Says of each job whether it runs. One for all capsules of a worker.

    Attributes:
        on: the switches in force, by class. Never changed, only replaced.
    """

    on: Mapping[str, Switch] = MappingProxyType({})

    def __init__(self) -> None:
        self._acted: Counter[str] = Counter()
        self._lock = threading.Lock()

    def judge(self, job: JobContext) -> Dropped | Deferred | None:
        """How the run ends before it has begun; None for a job that runs. To be asked while some switch is ``on``."""
        switch = self._switch_of(job.payload["class"])
        if switch is None:
            return None
        with self._lock:
            self._acted[switch.name] += 1
        why = f": {switch.reason}" if switch.reason else ""
        if switch.action == "defer":
            return Deferred(switch.delay_seconds, f"deferred by a switch{why}")
        return Dropped(f"dropped by a switch{why}", keep=switch.keep)

    def take_counts(self) -> Counter[str]:
        """How many jobs were acted on since the last time, by the class of the switch."""
        with self._lock:
            acted, self._acted = self._acted, Counter()
        return acted

    def give_back_counts(self, acted: Counter[str]) -> None:
        """They could not be written."""
        with self._lock:
            self._acted.update(acted)

    def _switch_of(self, name: str) -> Switch | None:
        on = self.on
        found = on.get(name)
        if found is None:
            known = registry.peek(name)  # stored under an older name
            found = None if known is None else on.get(known.name)
        return found


#: For an executor without a worker around it.
NO_SWITCHES = Switchboard()


class Switches:
    """The service that keeps a switchboard up to date.

    Args:
        redis: where the switches are.
        board: is told of them.
    """

    def __init__(self, config: Config, redis: Redis, board: Switchboard) -> None:
        self._redis = redis
        self._board = board
        self._most_aside = config.worker.quarantine_max_jobs
        self._is_full = False
        self._ending = threading.Event()
        key = redis.keys.switches
        self._lookout = Lookout(redis, [key], key, tells="of switches")
        self._outage = Outage("reading switches", config)
        self._loop = Loop("offsider-switches", self._turn, on_error=config.handle_error)
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
            self._lookout.sleep(pause_seconds)
        if not self._ending.is_set():
            return 0.0
        self._write_counts()
        self._lookout.close()
        return None

    def tick(self) -> float:
        """Read the board once; answers the seconds until the next time."""
        try:
            replies = self._lookout.exchange(switches.look(self._redis.keys))
            for reply in replies:
                if isinstance(reply, OffsiderError):
                    raise reply
            read = switches.board(replies)
            self._show(read.on)
            for name, stored in read.over.items():
                switches.forget(self._redis, name, stored)
        except RedisFailure as error:
            self._outage.noticed(error)
            return POLL_SECONDS
        self._outage.over()
        self._write_counts()
        ends = [switch.until - read.now for switch in read.on.values() if switch.until is not None]
        rest = POLL_SECONDS if read.on or not self._lookout.is_told else TOLD_SECONDS
        return max(0.0, min([rest, *ends]))

    def _show(self, on: Mapping[str, Switch]) -> None:
        before = self._board.on
        if on == before:
            return
        self._board.on = MappingProxyType(dict(on))
        for name, switch in on.items():
            if switch != before.get(name):
                logger.warning("jobs of %s are %s from now on%s", name, _done(switch), _told(switch))
        for name in before.keys() - on.keys():
            logger.warning("jobs of %s run again: their switch is off", name)

    def _write_counts(self) -> None:
        """Nothing depends on them, so nobody waits for the server."""
        acted = self._board.take_counts()
        if not acted:
            return
        try:
            switches.count(self._redis, acted)
        except RedisFailure as error:
            logger.debug("what switches did is counted later: %s", error)
            self._board.give_back_counts(acted)
            return
        with suppress(RedisFailure):
            self._look_at_quarantine()

    def _look_at_quarantine(self) -> None:
        quarantine.trim(self._redis)
        was_full, self._is_full = self._is_full, quarantine.size(self._redis) >= self._most_aside
        if self._is_full and not was_full:
            logger.warning("the quarantine has %d jobs, so what switches drop is deleted from now on", self._most_aside)


def _done(switch: Switch) -> str:
    if switch.action == "defer":
        return f"put off by {switch.delay_seconds:g} s"
    return "dropped into the quarantine" if switch.keep else "deleted"


def _told(switch: Switch) -> str:
    who = f", by a switch of {switch.by}" if switch.by else ", by a switch"
    return f"{who}: {switch.reason}" if switch.reason else who
