"""The workers of a supervisor: who is there, who is to be replaced, and who is on the way out.

1. Each place has a worker. One that ends is started again: at once the first time, then after longer pauses.
2. A worker that has to be replaced goes only when its successor runs: quieted when it may take its time, stopped when
   it holds too much memory. One place at a time.
3. Whoever is on the way out and has a deadline is killed at it; the keeper gives back its jobs.
4. When no worker has ever come to run, and each place has tried, it is hopeless.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsider.cli.running import LAST_SECONDS
from offsider.cli.supervisor.backoff import Backoff
from offsider.wiring.logs import logger

if TYPE_CHECKING:
    from offsider.cli.supervisor.nursery import Child, Nursery

# When the worker's own last words are due; the keeper needs the rest of the promised timeout + 4 s.
KILL_SECONDS = LAST_SECONDS
# For one that goes while others work nothing is promised, and whoever frees much memory ends slowly.
SLACK_SECONDS = 10.0


@dataclass
class Place:
    """One worker's place.

    Attributes:
        start_at: when a worker is to be started here, by the monotonic clock; for an occupied place its successor.
        goes_by: the signal by which the worker of now goes once its successor runs; empty while it may stay.
    """

    number: int
    child: Child | None = None
    successor: Child | None = None
    start_at: float = 0.0
    goes_by: str = ""
    backoff: Backoff = field(default_factory=Backoff)


class Crew:
    """All workers.

    Args:
        nursery: forks them.
        size: how many there shall be.
        stop_seconds: how long the stop of one may take that has not told.
    """

    def __init__(self, nursery: Nursery, size: int, stop_seconds: Callable[[], float]) -> None:
        self._nursery = nursery
        self._stop_seconds = stop_seconds
        self.places = [Place(number) for number in range(size)]
        self.leaving: dict[int, Child] = {}
        self.hiring = True
        #: How many had to be killed at a stop.
        self.killed = 0
        self._shot: set[int] = set()
        self._ever_ready = False
        self._failed_boots = 0

    # ------------------------------------------------------------------------------ who is there
    def everyone(self) -> list[Child]:
        """Every process, those included that are on the way in or out."""
        here = [child for place in self.places for child in (place.child, place.successor) if child is not None]
        return [*here, *self.leaving.values()]

    @property
    def ready(self) -> int:
        """How many places have a worker that runs."""
        return sum(place.child is not None and place.child.ready for place in self.places)

    @property
    def hopeless(self) -> bool:
        return not self._ever_ready and self._failed_boots >= len(self.places)

    def adopt(self, child: Child) -> None:
        """A worker of the program before: it goes when its successor runs, or now when its place is no more."""
        self._ever_ready = self._ever_ready or child.ready
        if child.place >= len(self.places) or self.places[child.place].child is not None:
            self._leave(child, "USR2")
        else:
            place = self.places[child.place]
            place.child, place.goes_by = child, "USR2"

    # -------------------------------------------------------------------------------- what is due
    def tend(self, now: float) -> None:
        """Do all that is due."""
        for child in self.everyone():
            child.tether.listen()
            self._ever_ready = self._ever_ready or child.ready
            if child.kill_at is not None and child.kill_at <= now:
                self._kill(child)
        for place in self.places:
            if place.successor is not None and place.successor.ready:
                self._hand_over(place)
        if self.hiring:
            for place in self._open_places(now):
                self._hire(place)

    def due(self) -> Iterator[float]:
        """When something has to be done, by the monotonic clock."""
        yield from (child.kill_at for child in self.everyone() if child.kill_at is not None)
        if self.hiring:
            yield from (place.start_at for place in self.places if place.child is None)
            yield from (place.start_at for place in self._to_be_replaced())

    def _open_places(self, now: float) -> list[Place]:
        empty = [place for place in self.places if place.child is None]
        return [place for place in (*empty, *self._to_be_replaced()) if place.start_at <= now]

    def _to_be_replaced(self) -> list[Place]:
        """The next place that gets a successor: one at a time, so that a machine never holds two crews."""
        if any(place.successor is not None for place in self.places):
            return []
        waiting = [place for place in self.places if place.child is not None and place.goes_by]
        return sorted(waiting, key=lambda place: place.start_at)[:1]

    def _hire(self, place: Place) -> None:
        child = self._nursery.fork(place.number, self.everyone())
        if place.child is None:
            place.child = child
            place.goes_by = ""
        else:
            place.successor = child

    def _hand_over(self, place: Place) -> None:
        old, place.child, place.successor = place.child, place.successor, None
        signal, place.goes_by = place.goes_by, ""
        if old is not None:
            self._leave(old, signal)

    # ------------------------------------------------------------------------------- who has to go
    def replace(self, child: Child, reason: str) -> None:
        """Have a worker stop, once its successor runs."""
        for place in self.places:
            if place.child is child and place.goes_by != "TERM":
                logger.warning("worker %d (process %d) is replaced: %s", place.number + 1, child.pid, reason)
                place.goes_by = "TERM"

    def stop(self) -> float:
        """Stop them all, and start no more; answers when the last of them has to be gone."""
        self.hiring = False
        now = time.monotonic()
        for child in self.everyone():
            self._end_by(child, now)
            child.send("TERM")
        return max((child.kill_at or now for child in self.everyone()), default=now)

    def send(self, name: str) -> None:
        """Signal them all."""
        for child in self.everyone():
            child.send(name)

    def _leave(self, child: Child, signal: str) -> None:
        self.leaving[child.pid] = child
        if signal == "TERM":
            self._end_by(child, time.monotonic() + SLACK_SECONDS)
        child.send(signal)

    def _end_by(self, child: Child, now: float) -> None:
        stop_seconds = child.tether.stop_seconds if child.tether.stop_seconds is not None else self._stop_seconds()
        child.kill_at = now + stop_seconds + KILL_SECONDS

    def _kill(self, child: Child) -> None:
        logger.error("worker %d (process %d) hangs and is killed", child.place + 1, child.pid)
        self._shot.add(child.pid)
        child.kill_at = None
        child.send("KILL")

    # -------------------------------------------------------------------------------- who has gone
    def reaped(self, pid: int, status: int) -> bool:
        """A process has ended; False when it was none of the crew."""
        child = next((child for child in self.everyone() if child.pid == pid), None)
        if child is None:
            return False
        child.tether.listen()
        child.tether.close()
        self._failed_boots += self.hiring and not child.ready
        # It may have ended by itself in the same moment.
        self.killed += not self.hiring and pid in self._shot and os.WIFSIGNALED(status)
        how = described(status)
        if self.leaving.pop(pid, None) is not None:
            logger.info("worker %d (process %d), replaced before, %s", child.place + 1, pid, how)
            return True
        place = self.places[child.place]
        now = time.monotonic()
        pause_seconds = place.backoff.pause_seconds(now - child.born_at)
        place.start_at = now + pause_seconds
        if place.successor is child:
            place.successor = None
        else:
            place.child, place.successor, place.goes_by = place.successor, None, ""
        if self.hiring and not self.hopeless and (place.child is None or place.goes_by):
            how += f"; another one is started in {pause_seconds:g} s"
        logger.log(logging.WARNING if self.hiring else logging.INFO, "worker %d (process %d) %s", *_who(child), how)
        return True


def _who(child: Child) -> tuple[int, int]:
    return child.place + 1, child.pid


def described(status: int) -> str:
    """What a status of `os.waitpid` means, in words."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        import signal  # in the rare case

        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with code {code}"
