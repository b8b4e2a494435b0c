"""A thread that pushes jobs while a row injects its faults."""

from __future__ import annotations

import threading
import time

from offsider import Client, NotReplicated, RedisFailure
from offsider.core.payload import new_jid


class Pusher:
    """Pushes one job after another, and continues after errors with a new job.

    Attributes:
        acked: jid -> start and end of its push, in monotonic seconds.
        pause_seconds: between two pushes.
        pushing: a lock that is held during each push; hold it to stop further pushes.
    """

    def __init__(
        self,
        client: Client,
        *,
        pause_seconds: float = 0.0,
        ms: float = 0,
        wait_replicas: int = 0,
        name: str = "scoreboard.Work",
    ) -> None:
        self.acked: dict[str, tuple[float, float]] = {}
        self.tried = self.errors = self.not_replicated = 0
        self.last_at = time.monotonic()
        self.longest_gap_seconds = 0.0
        self.pause_seconds = pause_seconds
        self.pushing = threading.Lock()
        self._client = client
        self._job = {"class": name, "args": [0, ms]}
        self._wait_replicas = wait_replicas
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[str]:
        """Stop, and return the jids of the pushes that returned."""
        self._ended.set()
        self._thread.join()
        return [*self.acked]

    def _run(self) -> None:
        while not self._ended.wait(self.pause_seconds):
            with self.pushing:
                self._push(new_jid())

    def _push(self, jid: str) -> None:
        self.tried += 1
        began = time.monotonic()
        try:
            self._client.push({**self._job, "jid": jid}, wait_replicas=self._wait_replicas)
        except NotReplicated:
            self.not_replicated += 1
        except RedisFailure:
            self.errors += 1
            self._ended.wait(0.02)
        else:
            now = time.monotonic()
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - self.last_at)
            self.last_at = now
            self.acked[jid] = began, now
