"""One run of a job in this process: its cancellation, progress and result, and the state of the job after it.

=================================  ==========================================
outcome                            state
=================================  ==========================================
succeeded, or skipped              succeeded
skipped because of a cancellation  cancelled
failed, and goes to the retry set  retrying
failed, and goes to the dead set   dead
failed, and is deleted             failed
discarded, dropped                 discarded
expired                            expired
any other                          queued or scheduled, by where the job goes
=================================  ==========================================
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from offsider.core.error_text import class_of, message_of, traceback_of
from offsider.core.errors import JobCancelled
from offsider.core.job_id import FailedRun, Progress
from offsider.core.outcome import Discarded, Failed, Skipped, Succeeded
from offsider.ext.results.store import WAITING, SettledJob, failure_fields, progress_text
from offsider.logs.structured import about_running

if TYPE_CHECKING:
    from offsider.core.job_id import State
    from offsider.core.outcome import Destination, Outcome
    from offsider.ext.results.store import ResultSettings
    from offsider.runtime.context import JobContext
    from offsider.storage.scripts import Argument

logger = logging.getLogger("offsider")

#: Time for `JobCancelled` to be raised in a thread, before it is tried once more, or a warning is logged.
GRACE_SECONDS = 1.0
_BY_DESTINATION: dict[Destination, State] = {
    "gone": "discarded",
    "quarantine": "discarded",
    "queue": "queued",
    "elsewhere": "queued",
    "retry": "retrying",
    "schedule": "scheduled",
    "dead": "dead",
}


class ResultsControl:
    """A run, as ``job.control``.

    Args:
        job: the run.
        kept_seconds: how long its result is kept; None if the job is not tracked.
        name: identifies the run.
        note: called when there is progress to write.

    Attributes:
        began_at: when it began, in seconds of `time.perf_counter`; None for a job that has not begun.
        started_at: the same in epoch seconds.
        latest: the last reported progress.
        result: the result as JSON; None without one.
        without_result: why a result is not stored.
        requested: whether its cancellation was requested.
    """

    def __init__(
        self, job: JobContext, kept_seconds: float | None, name: str, note: Callable[[ResultsControl], None]
    ) -> None:
        self.job = job
        self.kept_seconds = kept_seconds
        self.name = name
        self.began_at: float | None = None
        self.started_at: float | None = None
        self.latest: Progress | None = None
        self.result: bytes | None = None
        self.without_result = ""
        self.requested = False
        self._note = note
        self._lock = threading.Lock()
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._noticed = False
        self._ended = False

    @property
    def was_stopped(self) -> bool:
        """Whether the job noticed its cancellation: a result after that is not one of the whole job."""
        return self.requested and self._noticed

    def asked_to_stop(self) -> bool:
        """See `JobContext.cancelled`."""
        self._noticed = self._noticed or self.requested
        return self.requested

    def progress(self, done: float, total: float | None, message: str) -> None:
        """See `JobContext.progress`."""
        self.latest = Progress(done, total, message)
        if self.kept_seconds is not None:
            self._note(self)

    def refuse(self) -> None:
        """Note that the job was cancelled before it began."""
        self.requested = self._noticed = True

    def request(self, *, hard: bool) -> None:
        """Cancel the run, unless it has ended: its coroutine, or with ``hard`` its thread."""
        with self._lock:
            self.requested = not self._ended
            if self._ended:
                return
            if self._task is not None:
                self._cancel_task(*self._task)
            elif hard:
                self._raise_in_thread(more_tries=1)

    def end(self) -> None:
        """The run has ended: from now on nothing is raised in its thread."""
        with self._lock:
            self._ended = True

    def settled(self, outcome: Outcome, goes: Destination, rules: ResultSettings, now: float) -> SettledJob:
        """Return the state to store for a run with this outcome, at ``now`` in epoch seconds."""
        state = state_of(outcome, goes, cancelled=self.requested)
        fields: dict[str, Argument] = {}
        if self.latest is not None:
            fields["progress"] = progress_text(self.latest)
        if isinstance(outcome, Failed | Discarded):
            about = class_of(outcome.error)
            fields |= {"error_class": about, "error_message": message_of(outcome.error)}
            if self.kept_seconds:
                started_at, job = now if self.started_at is None else self.started_at, self.job
                text = traceback_of(outcome.error)
                fields |= failure_fields(FailedRun(job.attempt, started_at, now, job.process, about, text))
        delay_seconds = 0.0
        if state == "scheduled":
            delay_seconds = getattr(outcome, "delay_seconds", 0.0)
            fields["due"] = repr(now + delay_seconds)
        if state == "succeeded":
            if self.without_result:
                fields["why"] = self.without_result
            elif self.result is not None or isinstance(outcome, Skipped):
                fields["result"] = self.result or b"null"
        ended = state not in WAITING
        kept_seconds = self.kept_seconds or rules.keep_state_seconds
        return SettledJob(
            state=state,
            ended=ended,
            life_seconds=kept_seconds if ended else rules.keep_waiting_seconds + delay_seconds,
            at=now,
            duration_ms=None if self.began_at is None else round((time.perf_counter() - self.began_at) * 1000),
            process=self.job.process,
            fields=fields,
        )

    async def around(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wrap the coroutine of the job, so that `request` can cancel its task."""
        task = asyncio.current_task()
        with self._lock:
            if task is not None:
                self._task = (asyncio.get_running_loop(), task)
            if self.requested:  # before the task began
                self._noticed = True
                coroutine.close()
                raise asyncio.CancelledError
        try:
            return await coroutine
        finally:
            with self._lock:
                self._task = None

    def _cancel_task(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self._noticed = True
        loop.call_soon_threadsafe(task.cancel)

    def _raise_in_thread(self, *, more_tries: int) -> None:
        """Raise `JobCancelled`; the caller holds the lock, so that the thread cannot begin another job."""
        if self.job.reach is not None and not self._noticed:
            self.job.reach.aim(JobCancelled, "the job was cancelled", self._landed)
            timer = threading.Timer(GRACE_SECONDS, self._check, [more_tries])
            timer.daemon = True
            timer.start()

    def _landed(self) -> None:
        self._noticed = True

    def _check(self, more_tries: int) -> None:
        with self._lock:
            if self._ended or self._noticed or self.job.reach is None:
                return
            if more_tries:
                self._raise_in_thread(more_tries=more_tries - 1)
                return
            place = self.job.reach.place()
        logger.warning(
            "job %s (%s) was cancelled, but cannot be interrupted%s: it is in a system call or in C code, and stops "
            "when it returns to Python",
            self.job.jid,
            self.job.name,
            f" at {place}" if place else "",
            extra={"fields": about_running(self.job)},
        )


def state_of(outcome: Outcome, goes: Destination, *, cancelled: bool) -> State:
    """Return the state of a job after a run, or an attempt to run it.

    Args:
        cancelled: whether its cancellation was requested.
    """
    if isinstance(outcome, Skipped):
        return "cancelled" if cancelled else "succeeded"
    if isinstance(outcome, Succeeded):
        return "succeeded"
    if isinstance(outcome, Failed) and goes == "gone":
        return "failed"
    if outcome.name == "expired":
        return "expired"
    return _BY_DESTINATION[goes]
