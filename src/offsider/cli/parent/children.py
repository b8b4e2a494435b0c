"""The workers of a parent: running, being replaced, and exiting.

1. Each slot has a worker. When it exits, start another one: at once the first time, then with a back-off. Without
   ``-p`` the parent ends with its worker.
2. When a worker has to be replaced, start its successor first. Then drain the old worker (USR2), or stop it (TERM) if
   it uses too much memory. Replace one slot at a time. Without ``-p`` the parent stops instead.
3. A job may have replaced a worker by another program (`os.execv`), or closed its descriptors: the link is closed, but
   the process has not ended. Kill it, and start a new worker.
4. Kill an exiting worker at its deadline, if it has one.
5. If every slot has failed to start and no worker has ever run, the parent is hopeless and gives up. With
   ``--reload``, a worker that fails to start is started again after the next change.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsider.cli.parent.worker_process import Backoff
from offsider.core.wording import described
from offsider.logs.setup import logger
from offsider.worker.memory import CHECK_SECONDS, resident_kilobytes

if TYPE_CHECKING:
    from offsider.cli.parent.starting import Child, Starter
    from offsider.config.settings import WorkerSection

# By then the worker should have exited by itself; requeueing its jobs needs the rest of the promised timeout + 4 s.
# The worker itself gives up 3.6 s after its timeout (`main_loop.LAST_SECONDS`); importing that module takes memory.
KILL_SECONDS = 3.75
# Extra time for a replaced worker: no deadline is promised for it, and freeing much memory is slow.
SLACK_SECONDS = 10.0
# From the end of a link to the end of an exiting process, at most: its memory is released before.
EXIT_SECONDS = 0.2


@dataclass
class Slot:
    """The slot of one worker.

    Attributes:
        start_at: earliest start, by the monotonic clock, of a worker or, in an occupied slot, of its successor.
        stop_signal: signal for the current worker once its successor runs; empty if it is not to be replaced.
    """

    number: int
    child: Child | None = None
    successor: Child | None = None
    start_at: float = 0.0
    stop_signal: str = ""
    backoff: Backoff = field(default_factory=Backoff)


class Children:
    """All workers.

    Args:
        starter: starts them.
        settings: their number, and the longest duration of a stop for workers that have not sent theirs yet.
    """

    def __init__(self, starter: Starter, settings: WorkerSection) -> None:
        self._starter = starter
        self._settings = settings
        self._restarts = bool(settings.processes)
        self._memory_due = 0.0
        self.slots = [Slot(number) for number in range(settings.processes or 1)]
        self.leaving: dict[int, Child] = {}
        self.may_start = True
        #: Exit status of the only worker, if it is not restarted; else None.
        self.status: int | None = None
        #: Number of workers that had to be killed during a stop.
        self.killed = 0
        self._sent_kill: set[int] = set()
        self._ever_ready = False
        self._failed_boots = 0

    # ------------------------------------------------------------------------------ current workers
    def all(self) -> list[Child]:
        """Return all processes, including successors and exiting workers."""
        current = [child for slot in self.slots for child in (slot.child, slot.successor) if child is not None]
        return [*current, *self.leaving.values()]

    @property
    def ready(self) -> int:
        """Number of slots with a running worker."""
        return sum(slot.child is not None and slot.child.ready for slot in self.slots)

    @property
    def hopeless(self) -> bool:
        may_recover = not self._restarts or self._settings.reload or self._ever_ready
        return not may_recover and self._failed_boots >= len(self.slots)

    def adopt(self, child: Child) -> None:
        """Add a worker of the previous program: drain it when its successor runs, or now if it has no slot."""
        self._ever_ready = self._ever_ready or child.ready
        if child.slot >= len(self.slots) or self.slots[child.slot].child is not None:
            self._leave(child, "USR2")
        else:
            slot = self.slots[child.slot]
            slot.child, slot.stop_signal = child, "USR2"

    # -------------------------------------------------------------------------------- starts
    def tend(self, now: float) -> None:
        """Start, replace and kill workers as due."""
        for child in self.all():
            self._ever_ready = self._ever_ready or child.ready
            if child.kill_at is not None and child.kill_at <= now:
                self._kill(child)
            if child.link.closed and child.closed_at is None:
                child.closed_at = now
            if child.closed_at is not None and now - child.closed_at >= EXIT_SECONDS:
                self._kill_replaced(child)
        for slot in self.slots:
            if slot.successor is not None and slot.successor.ready:
                self._hand_over(slot)
        if self.may_start and self._starter.can_start:
            for slot in self._open_slots(now):
                self._start(slot)

    def due(self) -> Iterator[float]:
        """Yield the times of the next actions, by the monotonic clock."""
        yield from (child.kill_at for child in self.all() if child.kill_at is not None)
        yield from (child.closed_at + EXIT_SECONDS for child in self.all() if child.closed_at is not None)
        if self.may_start and self._starter.can_start:
            yield from (slot.start_at for slot in self.slots if slot.child is None)
            yield from (slot.start_at for slot in self._to_be_replaced())
        if self.may_start and self._settings.memory_max_mb:
            yield self._memory_due

    def _open_slots(self, now: float) -> list[Slot]:
        empty = [slot for slot in self.slots if slot.child is None]
        return [slot for slot in (*empty, *self._to_be_replaced()) if slot.start_at <= now]

    def _to_be_replaced(self) -> list[Slot]:
        """Return the next slot that gets a successor: one at a time, so that memory never holds two sets of workers."""
        if any(slot.successor is not None for slot in self.slots):
            return []
        waiting = [slot for slot in self.slots if slot.child is not None and slot.stop_signal]
        return sorted(waiting, key=lambda slot: slot.start_at)[:1]

    def _start(self, slot: Slot) -> None:
        child = self._starter.start(slot.number)
        if child is None:
            slot.start_at = time.monotonic() + slot.backoff.pause_seconds(0.0)
            return
        logger.log(logging.INFO if self._restarts else logging.DEBUG, "worker %d is process %d", *_who(child))
        if slot.child is None:
            slot.child = child
        else:
            slot.successor = child

    def _hand_over(self, slot: Slot) -> None:
        old, slot.child, slot.successor = slot.child, slot.successor, None
        signal, slot.stop_signal = slot.stop_signal, ""
        if old is not None:
            self._leave(old, signal)

    def replace(self) -> None:
        """Replace all workers by workers with the source of now."""
        for slot in self.slots:
            if slot.successor is not None:
                self._leave(slot.successor, "TERM")
                slot.successor = None
            if slot.child is not None and not slot.child.ready:
                self._leave(slot.child, "TERM")
                slot.child = None
            slot.start_at, slot.stop_signal = 0.0, "" if slot.child is None else "TERM"

    # ------------------------------------------------------------------------------- stops
    def check_memory(self, now: float) -> str:
        """Replace workers that use too much memory; return the reason why the only one must stop, else empty."""
        if not self.may_start or now < self._memory_due:
            return ""
        self._memory_due = now + CHECK_SECONDS
        for slot in self.slots:
            child = slot.child
            if child is None or not child.ready:
                continue
            reason = child.memory.too_much(self._settings.memory_max_mb, resident_kilobytes(child.pid), now)
            if reason and not self._restarts:
                return reason
            if reason and slot.stop_signal != "TERM":
                logger.warning("replacing worker %d (process %d): %s", slot.number + 1, child.pid, reason)
                slot.stop_signal = "TERM"
        return ""

    def _kill_replaced(self, child: Child) -> None:
        """Kill a program that replaced a worker, or a worker without its descriptors."""
        logger.error(
            "worker %d (process %d) was replaced by another program (os.execv), or a job closed its descriptors: "
            "killing it; a job must not do that",
            *_who(child),
        )
        child.closed_at = math.inf
        child.send("KILL")

    def stop(self) -> float:
        """Stop all workers, start no more, and return the last deadline."""
        self.may_start = False
        now = time.monotonic()
        for child in self.all():
            self._end_by(child, now)
            child.send("TERM")
        return max((child.kill_at or now for child in self.all()), default=now)

    def send(self, name: str) -> None:
        """Send a signal to all workers."""
        for child in self.all():
            child.send(name)

    def log(self) -> None:
        """Log a line for each worker."""
        for child in self.all():
            state = "is exiting" if child.pid in self.leaving else "runs" if child.ready else "starts"
            age = time.monotonic() - child.born_at
            logger.info("worker %d: process %d %s, %.0f s old", *_who(child), state, age)

    def _leave(self, child: Child, signal: str) -> None:
        self.leaving[child.pid] = child
        if signal == "TERM":
            self._end_by(child, time.monotonic() + SLACK_SECONDS)
        child.send(signal)

    def _end_by(self, child: Child, now: float) -> None:
        sent_seconds = child.link.stop_seconds
        stop_seconds = self._settings.timeout_seconds if sent_seconds is None else sent_seconds
        child.kill_at = now + stop_seconds + KILL_SECONDS

    def _kill(self, child: Child) -> None:
        logger.error("worker %d (process %d) did not exit in time, killing it", *_who(child))
        self._sent_kill.add(child.pid)
        child.kill_at = None
        child.send("KILL")

    # -------------------------------------------------------------------------------- exits
    def _free(self, slot: Slot, child: Child, now: float) -> float:
        """Remove an exited worker, and return the pause before its replacement."""
        waits = self._settings.reload and not child.ready
        pause_seconds = math.inf if waits else slot.backoff.pause_seconds(now - child.born_at)
        slot.start_at = now + pause_seconds
        if slot.successor is child:
            slot.successor = None
        else:
            slot.child, slot.successor, slot.stop_signal = slot.successor, None, ""
        return pause_seconds

    def reaped(self, pid: int, status: int) -> bool:
        """Handle the exit of a process; return False if it was not a worker of ours."""
        child = next((child for child in self.all() if child.pid == pid), None)
        if child is None:
            return False
        child.link.close()
        # A job may have killed one that has reported its lists.
        self._failed_boots += self.may_start and not (child.ready or (child.link.report and os.WIFSIGNALED(status)))
        # It may have exited by itself just before the kill.
        self.killed += not self.may_start and pid in self._sent_kill and os.WIFSIGNALED(status)
        how = described(status)
        if self.leaving.pop(pid, None) is not None:
            logger.info("old worker %d (process %d) %s", child.slot + 1, pid, how)
            return True
        slot = self.slots[child.slot]
        # With --reload, a worker that failed is started again; one that ended without an error was stopped.
        starts_again = self._restarts or (self._settings.reload and status != 0)
        last = slot.successor is None and not starts_again
        pause_seconds = self._free(slot, child, time.monotonic())
        if last:
            self.status, self.may_start = status, False
            if os.WIFSIGNALED(status):
                logger.error("the worker (process %d) %s", pid, how)
            return True
        if self.may_start and not self.hopeless and (slot.child is None or slot.stop_signal):
            when = f"in {pause_seconds:g} s" if math.isfinite(pause_seconds) else "after the next change"
            how += f"; starting another one {when}"
        logger.log(logging.WARNING if self.may_start else logging.INFO, "worker %d (process %d) %s", *_who(child), how)
        return True


def _who(child: Child) -> tuple[int, int]:
    return child.slot + 1, child.pid
