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

from offsider.config.app_version import app_version
from offsider.core.error_text import class_of, frame_of, message_of, traceback_of
from offsider.core.errors import RedisUnavailable
from offsider.runtime.outage import RETRY_SECONDS, Outage
from offsider.runtime.propagation import origin_of
from offsider.runtime.service import Loop
from offsider.storage import attempts, error_groups
from offsider.storage.attempts import NewAttempt
from offsider.storage.error_groups import MAX_MESSAGE_CHARACTERS, MAX_TRACEBACK_CHARACTERS, FailedRun, Noted, group_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.storage.redis import Redis
    from offsider.worker.unit_of_work import Run

WRITE_SECONDS = 0.25
#: Sleep while there is nothing to write; `Failures.note` wakes the thread.
IDLE_SECONDS = 3600.0
MAX_ATTEMPTS = 1_000


class Failures(Loop):
    """The service that writes failed runs.

    Args:
        identity: returns the identity of this process; called when a run fails.
    """

    def __init__(self, config: Config, redis: Redis, identity: Callable[[], str]) -> None:
        self._clock = config.clock
        self._redis = redis
        self._identity = identity
        self._release = app_version(config.client.app_version)
        self._outage = Outage("recording failed runs", config)
        self._lock = threading.Lock()
        self._attempts: deque[NewAttempt] = deque(maxlen=MAX_ATTEMPTS)
        self._groups: dict[str, Noted] = {}
        self._done: deque[str] = deque(maxlen=MAX_ATTEMPTS)
        self._gathering = False
        super().__init__("offsider-failures", self._write_soon, config.handle_error)

    def note(self, run: Run, job: JobContext, error: BaseException, kept_seconds: float | None, *, died: bool) -> None:
        """Record a failed run.

        Args:
            kept_seconds: how long its job remains stored from now on; None if it was deleted.
            died: the job will not be retried.
        """
        failed = self._failed_run(run, job, error, died=died)
        attempt = None
        if job.jid and kept_seconds is not None:
            told = {
                "number": job.attempt,
                "at": failed.at,
                "host": ":".join(self._identity().split(":")[:2]),
                "release": self._release,
                "error_class": failed.error_class,
                "error_message": failed.message,
                "frame": failed.frame,
                "duration": run.duration_seconds,
            }
            raw = json.dumps(told).encode()
            attempt = NewAttempt(job.jid, failed.at, raw, kept_seconds, tuple(job.log_lines or ()))
        group = failed.group
        # Formatting takes longer than all else, so it is done once per batch.
        trace = "" if group in self._groups else traceback_of(error, MAX_TRACEBACK_CHARACTERS)
        with self._lock:
            idle = not self._pending()
            if attempt is not None:
                self._attempts.append(attempt)
            if group in self._groups or len(self._groups) < error_groups.MAX_GROUPS:
                self._groups.setdefault(group, Noted(failed, trace, failed.at)).add(failed)
        if idle:
            self.wake()

    def _failed_run(self, run: Run, job: JobContext, error: BaseException, *, died: bool) -> FailedRun:
        payload, error_class = job.payload, class_of(error)
        frame = frame_of(error, "" if job.declared is None else job.declared.module)
        before, now = (
            group_of(job.shown_name, shown_class, name)
            for shown_class, name in (
                (payload.get("error_class", ""), payload.get("error_frame", "")),
                (error_class, frame.name),
            )
        )
        caller, tenant, user = origin_of(payload)
        return FailedRun(
            job.shown_name,
            error_class,
            message_of(error)[:MAX_MESSAGE_CHARACTERS],
            frame,
            run.started_at + run.duration_seconds,
            self._release,
            is_first=before != now,
            died=died,
            queue=job.queue,
            jid=job.jid,
            host=self._identity().partition(":")[0],
            caller=caller,
            tenant=tenant,
            user=user,
        )

    def forget(self, jid: str) -> None:
        """Delete the attempts of a job that has succeeded after failures."""
        with self._lock:
            idle = not self._pending()
            self._done.append(jid)
        if idle:
            self.wake()

    def flush(self) -> None:
        """Write the recorded failures. If Redis is unavailable, the counts are kept, and the attempts are lost."""
        with self._lock:
            noted, self._attempts = self._attempts, deque(maxlen=MAX_ATTEMPTS)
            groups, self._groups = self._groups, {}
            done, self._done = self._done, deque(maxlen=MAX_ATTEMPTS)
        with self._outage:
            try:
                error_groups.note(self._redis, groups)
            except RedisUnavailable as error:
                if not error.ambiguous:
                    self._restore(groups)
                raise
            attempts.add(self._redis, noted, self._clock.now())
            attempts.forget(self._redis, list(done))

    def _restore(self, groups: dict[str, Noted]) -> None:
        with self._lock:
            for group, later in self._groups.items():
                if group in groups:
                    groups[group].add_later(later)
                elif len(groups) < error_groups.MAX_GROUPS:
                    groups[group] = later
            self._groups = groups

    def _write_soon(self) -> float:
        if not self._pending():
            return IDLE_SECONDS
        self._gathering = not self._gathering
        if self._gathering:  # wait for more failures, so that one batch contains them all
            return WRITE_SECONDS
        self.flush()
        return RETRY_SECONDS if self._pending() else IDLE_SECONDS

    def _pending(self) -> bool:
        return bool(self._attempts or self._groups or self._done)
