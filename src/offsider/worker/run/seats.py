"""Seats: how many jobs of a capsule run at a time, in threads and as coroutines.

A thread needs a thread seat to take a job. While it waits for the job's coroutine it gives the seat to another
thread, so that `async def` jobs occupy no thread seat. Jobs are claimed only for threads that have a seat. That works
for both kinds of jobs: each claimed job has a seat.

1. `give_up`: the thread waits for a coroutine. Its thread seat goes to a spare thread or to a new one, and its job
   takes a coroutine seat. With all coroutine seats taken the thread keeps its thread seat until one is free.
2. `take_back`: the coroutine has ended. Without a free thread seat the thread settles its job and becomes spare.
3. `wait`: before each job. A spare thread ends after a second without a seat.

A spare thread sleeps on a lock of its own. A free seat goes to the thread that became spare last: it is assigned to
that thread before the thread wakes, so that only one thread wakes, and at once finds its seat.
"""

from __future__ import annotations

import threading

#: A spare thread waits this long for a seat, then ends.
SPARE_SECONDS = 1.0


class Seats:
    """The seats of one capsule. Each method concerns the thread that calls it.

    Args:
        threads: number of thread seats.
        coroutines: number of coroutine seats.

    Attributes:
        seated: idents of the threads that have a thread seat, for reading. Only the thread itself gives its seat up,
            or another one takes it while the thread waits for a coroutine; so a thread that runs no job may look here
            instead of calling `wait`.
    """

    def __init__(self, threads: int, coroutines: int) -> None:
        self._free = threads
        self._most_coroutines = coroutines
        self._lock = threading.Lock()
        self.seated: set[int] = set()
        self._in_coroutine: set[int] = set()
        #: Those that have a thread seat and wait for a coroutine, because all coroutine seats are taken.
        self._crowded: set[int] = set()
        #: Spare threads in order of arrival, each with the lock it waits for. A seat is free only if there is none.
        self._spare: dict[int, threading.Lock] = {}
        self._closed = False

    @property
    def coroutines(self) -> int:
        """Number of jobs that run now and occupy no thread seat."""
        return len(self._in_coroutine)

    def is_seated(self) -> bool:
        """Return whether the thread has a thread seat, and will take another job."""
        return threading.get_ident() in self.seated

    def wait(self) -> bool:
        """Wait for a thread seat; False if the thread has to end. After `close` each thread may call the fetcher."""
        ident = threading.get_ident()
        if ident in self.seated:
            return True
        with self._lock:
            self._in_coroutine.discard(ident)
            self._relieve()
            if self._closed or self._take(ident):
                self._hand_out()
                return True
            turn = self._spare[ident] = threading.Lock()
            turn.acquire()
        if turn.acquire(timeout=SPARE_SECONDS):
            return True
        with self._lock:
            return self._spare.pop(ident, None) is None  # it got a seat just now

    def give_up(self) -> bool:
        """Give up the thread seat for a coroutine seat, if one is free; True if another thread has to be started."""
        ident = threading.get_ident()
        with self._lock:
            if not self._closed and ident in self.seated:
                self._crowded.add(ident)
                self._relieve()
                self._hand_out()
            return self._free > 0 and ident in self._in_coroutine

    def take_back(self) -> bool:
        """Give up the coroutine seat for a thread seat, if one is free; True if another thread has to be started."""
        ident = threading.get_ident()
        with self._lock:
            self._crowded.discard(ident)
            if self._closed or ident not in self._in_coroutine or not (self._free or self._crowded):
                return False
            self._in_coroutine.remove(ident)
            self._relieve()
            self._take(ident)
            self._hand_out()
            return self._free > 0

    def leave(self) -> None:
        """Give up any seat: the thread ends."""
        ident = threading.get_ident()
        with self._lock:
            self._in_coroutine.discard(ident)
            self._crowded.discard(ident)
            if ident in self.seated:
                self.seated.remove(ident)
                self._free += 1
            self._relieve()
            self._hand_out()

    def close(self) -> None:
        """Threads keep their seats from now on. Call it when the fetcher is quiet: it ends threads, and the last one
        has acknowledgements to write.
        """
        with self._lock:
            self._closed = True
            while self._spare:
                self._spare.popitem()[1].release()

    def _relieve(self) -> None:
        """Move crowded threads to free coroutine seats, which frees their thread seats."""
        while self._crowded and len(self._in_coroutine) < self._most_coroutines and not self._closed:
            ident = self._crowded.pop()
            self.seated.remove(ident)
            self._in_coroutine.add(ident)
            self._free += 1

    def _take(self, ident: int) -> bool:
        if self._closed or not self._free:
            return False
        self._free -= 1
        self.seated.add(ident)
        return True

    def _hand_out(self) -> None:
        """Give free thread seats to spare threads, and wake these."""
        while self._free and self._spare:
            ident, turn = self._spare.popitem()
            self._take(ident)
            turn.release()
