"""Server middleware: a job over a limit is rescheduled instead of failing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.core.errors import OverLimit, Reschedule

if TYPE_CHECKING:
    from offsider.ext.limiters.limiter import Limiter, Settings
    from offsider.runtime.context import JobContext


class Overrated(Reschedule):
    """Reschedules a job over a limit; counted apart from the reschedules of the job itself."""

    counter = "overrated"


class Reschedules:
    """The middleware.

    Args:
        settings: of the extension; a limiter can override them.
        errors: exceptions that reschedule a job.
    """

    def __init__(self, settings: Settings, errors: tuple[type[Exception], ...]) -> None:
        self._settings = settings
        self._errors = errors

    def __call__(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        try:
            return call_next(job)
        except self._errors as error:
            self._reschedule(job, error)
            raise

    def _reschedule(self, job: JobContext, error: Exception) -> None:
        """Raise `Overrated`, unless the job has used up its reschedules: then the error is a failure."""
        limiter: Limiter | None = error.limiter if isinstance(error, OverLimit) else None
        most = None if limiter is None else limiter.reschedule
        count = max(0, job.payload.get("overrated", 0))
        if count >= (self._settings.reschedule if most is None else most):
            return
        job.payload["overrated"] = count + 1
        backoff = (limiter and limiter.backoff) or self._settings.backoff
        raise Overrated(backoff(limiter, job, error), reason=str(error), limit=None) from error
