"""Tells of failed runs, for those who look later: the last attempts of a job, and how often an error happened.

Nothing depends on it, so nobody waits for it: failures are noted here, and a thread writes them in one go a quarter of
a second later. In a storm of errors the counts stay right and only the newest attempts are kept. ``kill -9`` loses what
was noted last.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.storage import attempts, error_groups
from offsider.storage.error_groups import Noted
from offsider.wiring.service import Loop
from offsider.worker.outage import Outage
from offsider.worker.retrier import class_of, message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext

WRITE_SECONDS = 0.25
#: Between two looks when nobody has noted anything; who does wakes the thread.
IDLE_SECONDS = 3600.0
MOST_ATTEMPTS = 1_000
MESSAGE_CHARACTERS = 500
# What tells apart two errors of one kind: ids, addresses, amounts.
_PARTICULAR = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b|\d+")


class Failures:
    """The service that writes them.

    Args:
        identity: of this process, asked when a run fails.
    """

    def __init__(self, config: Config, redis: Redis, identity: Callable[[], str]) -> None:
        self._clock = config.clock
        self._redis = redis
        self._identity = identity
        self._outage = Outage("noting failed runs", config)
        self._lock = threading.Lock()
        self._attempts: deque[tuple[str, bytes, float]] = deque(maxlen=MOST_ATTEMPTS)
        self._groups: dict[str, Noted] = {}
        self._done: deque[str] = deque(maxlen=MOST_ATTEMPTS)
        self._gathering = False
        self._loop = Loop("offsider-failures", self._write_soon, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.join = self._loop.join

    def note(self, job: JobContext, error: BaseException, duration_seconds: float, kept_seconds: float | None) -> None:
        """A run has failed.

        Args:
            kept_seconds: for how long its job is stored from now on; None when it is gone.
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
        group = group_of(job.name, error_class, message)
        with self._lock:
            idle = not self._pending()
            if attempt is not None:
                self._attempts.append(attempt)
            before = self._groups.get(group)
            if before is not None or len(self._groups) < error_groups.MOST:
                info = {"class": job.name, "error_class": error_class, "message": message, "queue": job.queue}
                count = 1 if before is None else before.count + 1
                self._groups[group] = Noted(group, count, at, json.dumps(info), job.jid)
        if idle:
            self._loop.wake()

    def forget(self, jid: str) -> None:
        """A job that had failed before is done: nobody will ask for its attempts."""
        with self._lock:
            idle = not self._pending()
            self._done.append(jid)
        if idle:
            self._loop.wake()

    def flush(self) -> None:
        """Write what was noted; it is gone when Redis does not take it."""
        with self._lock:
            noted, self._attempts = self._attempts, deque(maxlen=MOST_ATTEMPTS)
            groups, self._groups = self._groups, {}
            done, self._done = self._done, deque(maxlen=MOST_ATTEMPTS)
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
        if self._gathering:  # what comes in the meantime is written with it
            return WRITE_SECONDS
        self.flush()
        return IDLE_SECONDS

    def _pending(self) -> bool:
        return bool(self._attempts or self._groups or self._done)


def group_of(name: str, error_class: str, message: str) -> str:
    """The id of the group that an error belongs to: those that differ in numbers and ids alone are alike."""
    alike = _PARTICULAR.sub("#", message)
    return hashlib.sha256(f"{name}\0{error_class}\0{alike}".encode()).hexdigest()[:16]
