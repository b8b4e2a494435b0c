"""Coordinates the threads of one capsule that have no job: their number, their sleep, and the lead."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.worker.unit_of_work import UnitOfWork

#: Maximum sleep at the bell, in case a wake-up is ever missed.
LISTEN_SECONDS = 5.0


class IdleThreads:
    """One thread has the lead: it claims for all, and waits for the server. The other threads sleep at a bell.

    No wake-up is lost: a sleeper increments the count before it checks for work, and a thread that releases the lead
    reads the count afterwards.

    Attributes:
        count: threads that wait for a job, or will need one next.
    """

    def __init__(self) -> None:
        self.count = 0
        self._counting = threading.Lock()
        self._lead = threading.Lock()
        self._bell = threading.Condition()
        self._listening = 0

    def join(self) -> None:
        with self._counting:
            self.count += 1

    def leave(self) -> bool:
        """Stop waiting for a job; return whether this was the last thread."""
        with self._counting:
            self.count -= 1
            return self.count == 0

    @contextmanager
    def joined(self) -> Generator[None]:
        self.join()
        try:
            yield
        finally:
            self.leave()

    def take_from(self, ready: deque[UnitOfWork]) -> UnitOfWork | None:
        """Take the next job and leave.

        Both happen under one lock: if the leading thread counted a thread that already has a job, it would claim one
        too many.
        """
        with self._counting:
            try:
                unit = ready.popleft()
            except IndexError:
                return None
            self.count -= 1
            return unit

    # --- the lead ---------------------------------------------------------------------------------

    @property
    def led(self) -> bool:
        return self._lead.locked()

    def try_lead(self, timeout_seconds: float = 0.0) -> bool:
        """Take the lead; False if another thread has it."""
        return self._lead.acquire(timeout=timeout_seconds) if timeout_seconds else self._lead.acquire(blocking=False)

    def lead(self) -> None:
        self._lead.acquire()

    def release_lead(self) -> None:
        """Release the lead. The caller then wakes sleepers, if there are any and there is work for them."""
        self._lead.release()

    # --- the bell ---------------------------------------------------------------------------------

    @property
    def listening(self) -> int:
        """Threads that sleep at the bell."""
        return self._listening

    def listen(self, may_sleep: Callable[[], bool]) -> None:
        """Sleep until there is a job to take, or until the lead is free."""
        with self._bell:
            # Increment first: `LeadingThread.pass_lead` reads the count after it has released the lead.
            self._listening += 1
            try:
                if self._lead.locked() and may_sleep():
                    self._bell.wait(LISTEN_SECONDS)
            finally:
                self._listening -= 1

    def ring(self, threads: int) -> None:
        """Wake this number of sleepers."""
        if threads > 0:
            with self._bell:
                self._bell.notify(threads)
