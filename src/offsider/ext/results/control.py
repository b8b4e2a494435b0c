"""One run of a job in this process: its cancellation, its progress and its result."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from offsider.core.errors import JobCancelled
from offsider.core.job_id import Progress
from offsider.logs.structured import about_here

if TYPE_CHECKING:
    from offsider.ext.results.rules import Tracking
    from offsider.runtime.context import JobContext

logger = logging.getLogger("offsider")

#: Time for `JobCancelled` to be raised in a thread, before it is tried once more, or a warning is logged.
GRACE_SECONDS = 1.0


class ResultsControl:
    """A run, as ``job.control``.

    Args:
        job: the run.
        tracking: how the job is tracked; None if it is not.
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
        self, job: JobContext, tracking: Tracking | None, name: str, note: Callable[[ResultsControl], None]
    ) -> None:
        self.job = job
        self.tracking = tracking
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
        self._knows = False
        self._ended = False

    @property
    def was_stopped(self) -> bool:
        """Whether the job noticed its cancellation: a result after that is not one of the whole job."""
        return self.requested and self._knows

    def asked_to_stop(self) -> bool:
        """See `JobContext.cancelled`."""
        self._knows = self._knows or self.requested
        return self.requested

    def progress(self, done: float, total: float | None, message: str) -> None:
        """See `JobContext.progress`."""
        self.latest = Progress(done, total, message)
        if self.tracking is not None:
            self._note(self)

    def refuse(self) -> None:
        """Note that the job was cancelled before it began."""
        self.requested = self._knows = True

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

    async def around(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wrap the coroutine of the job, so that `request` can cancel its task."""
        task = asyncio.current_task()
        with self._lock:
            if task is not None:
                self._task = (asyncio.get_running_loop(), task)
            if self.requested:  # before the task began
                self._knows = True
                coroutine.close()
                raise asyncio.CancelledError
        try:
            return await coroutine
        finally:
            with self._lock:
                self._task = None

    def _cancel_task(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self._knows = True
        loop.call_soon_threadsafe(task.cancel)

    def _raise_in_thread(self, *, more_tries: int) -> None:
        """Raise `JobCancelled`; the caller holds the lock, so that the thread cannot begin another job."""
        if self.job.reach is not None and not self._knows:
            self.job.reach.aim(JobCancelled, "the job was cancelled", self._landed)
            timer = threading.Timer(GRACE_SECONDS, self._check, [more_tries])
            timer.daemon = True
            timer.start()

    def _landed(self) -> None:
        self._knows = True

    def _check(self, more_tries: int) -> None:
        with self._lock:
            if self._ended or self._knows or self.job.reach is None:
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
            extra={"fields": about_here(self.job)},
        )
