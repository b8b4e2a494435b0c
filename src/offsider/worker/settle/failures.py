"""Records failed runs for later inspection: the last attempts of a job, and the number of runs per error.

Nothing depends on these records, so job threads do not wait for the write: they add failures to memory, and a thread
writes them as one batch a quarter of a second later. During a burst of errors the counts remain exact, and only the
newest attempts are kept. ``kill -9`` loses the failures of the last batch.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import TYPE_CHECKING

from offsider.core.error_text import class_of, message_of
from offsider.core.errors import RedisFailure
from offsider.runtime.service import LoopService
from offsider.storage import attempts, error_groups
from offsider.storage.error_groups import MESSAGE_CHARACTERS, Noted, group_of
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.storage.redis import Redis

WRITE_SECONDS = 0.25
#: Sleep while there is nothing to write; `Failures.note` wakes the thread.
IDLE_SECONDS = 3600.0
MAX_ATTEMPTS = 1_000


class Failures(LoopService):
    """The service that writes failed runs.

    Args:
        identity: returns the identity of this process; called when a run fails.
    """

    def __init__(self, config: Config, redis: Redis, identity: Callable[[], str]) -> None:
        self._clock = config.clock
        self._redis = redis
        self._identity = identity
        self._outage = Outage("recording failed runs", config)
        self._lock = threading.Lock()
        self._attempts: deque[tuple[str, bytes, float]] = deque(maxlen=MAX_ATTEMPTS)
        self._groups: dict[str, Noted] = {}
        self._done: deque[str] = deque(maxlen=MAX_ATTEMPTS)
        self._gathering = False
        super().__init__("offsider-failures", self._write_soon, config.handle_error)

    def note(self, job: JobContext, error: BaseException, duration_seconds: float, kept_seconds: float | None) -> None:
        """Record a failed run.

        Args:
            kept_seconds: how long its job remains stored from now on; None if it was deleted.
        """
        at, error_class, message = self._clock.now(), class_of(error), message_of(error)[:MESSAGE_CHARACTERS]
        attempt = None
        if job.jid and kept_seconds is not None:
            told = {
                "number": job.attempt,
                "at": at,
                "host": ":".join(self._identity().split(":")[:2]),
                "error_class": error_class,
                "error_message": message,
                "duration": duration_seconds,
            }
            attempt = (job.jid, json.dumps(told).encode(), kept_seconds)
        group = group_of(job.shown_name, error_class, message)
        with self._lock:
            idle = not self._pending()
            if attempt is not None:
                self._attempts.append(attempt)
            before = self._groups.get(group)
            if before is not None or len(self._groups) < error_groups.MOST:
                info = {"class": job.shown_name, "error_class": error_class, "message": message, "queue": job.queue}
                count = 1 if before is None else before.count + 1
                self._groups[group] = Noted(group, count, at, json.dumps(info), job.jid)
        if idle:
            self._loop.wake()

    def forget(self, jid: str) -> None:
        """Delete the attempts of a job that has succeeded after failures."""
        with self._lock:
            idle = not self._pending()
            self._done.append(jid)
        if idle:
            self._loop.wake()

    def flush(self) -> None:
        """Write the recorded failures; they are lost if Redis is unavailable."""
        with self._lock:
            noted, self._attempts = self._attempts, deque(maxlen=MAX_ATTEMPTS)
            groups, self._groups = self._groups, {}
            done, self._done = self._done, deque(maxlen=MAX_ATTEMPTS)
        try:
            attempts.add(self._redis, noted, self._clock.now())
            attempts.forget(self._redis, list(done))
            error_groups.note(self._redis, groups.values())
        except RedisFailure as error:
            self._outage.noticed(error)
        else:
            self._outage.over()

    def _write_soon(self) -> float:
        if not self._pending():
            return IDLE_SECONDS
        self._gathering = not self._gathering
        if self._gathering:  # wait for more failures, so that one batch contains them all
            return WRITE_SECONDS
        self.flush()
        return IDLE_SECONDS

    def _pending(self) -> bool:
        return bool(self._attempts or self._groups or self._done)
