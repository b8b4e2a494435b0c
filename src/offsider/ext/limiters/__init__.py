"""Limiters: limit the use of a resource across all processes, for example calls of another company's API.

1. A `Limiter` is used in jobs, web requests and scripts (`limiter`, `use`). Each check is one script (`store`).
2. In a job, server middleware turns `OverLimit` into a reschedule, which is not a failure.
3. Operators see and reset limiters (`limiter_set`, `web`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, cast

from offsider.config.routing import MAIN
from offsider.core.clock import as_seconds
from offsider.core.error_text import message_of
from offsider.core.errors import ConfigurationError, OverLimit, Reschedule
from offsider.ext.limiters.limiter import (
    DAY_SECONDS,
    EXTENSION,
    Backoff,
    ConcurrentLimiter,
    Limiter,
    LimiterOptions,
    LimiterSettings,
    PointsLimiter,
    RateLimiter,
    UnlimitedLimiter,
    default_backoff,
    sidekiq_backoff,
)
from offsider.ext.limiters.limiter_set import LimiterSet, LimiterState, check_limiters, families
from offsider.ext.limiters.use import Use
from offsider.ext.limiters.web import make_tab
from offsider.runtime.middleware import sets_context

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware

__all__ = [
    "Backoff",
    "ConcurrentLimiter",
    "Limiter",
    "LimiterOptions",
    "LimiterSet",
    "LimiterState",
    "Limiters",
    "OverLimit",
    "PointsLimiter",
    "RateLimiter",
    "UnlimitedLimiter",
    "Use",
    "sidekiq_backoff",
]


class Limiters:
    """Extension for limiters. Install it in every program that uses one.

    ::

        config.use(Limiters())

        STRIPE = Limiter.window("stripe", 100, "second")

        @job
        def charge(card_id: int) -> None:
            with STRIPE.within_limit():
                ...

    Args:
        server: name of the server that stores all limiters, from ``[servers.NAME]``. Default: the main server, also for
            workers of other servers.
        reschedule: how often a job over a limit is rescheduled; after that the error is a failure. 0: at once.
        backoff: called with the limiter, the job and the error; returns the seconds until the job runs again.
            Default: when the limiter is free, and a random time that grows with each reschedule. `sidekiq_backoff` is
            Sidekiq Enterprise's: about five minutes more each time.
        errors: more exceptions that reschedule a job, such as an API client's error for the status 429. For these,
            the limiter passed to ``backoff`` is None.
        ttl: limiters are deleted when they were unused for this time, in seconds; at least a day. Default: 90 days.

    Attributes:
        settings: the arguments, apart from ``errors``.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    name = EXTENSION

    def __init__(
        self,
        *,
        server: str = MAIN,
        reschedule: int = 20,
        backoff: Backoff = default_backoff,
        errors: tuple[type[Exception], ...] = (),
        ttl: float | timedelta = 90 * DAY_SECONDS,
    ) -> None:
        ttl_seconds = as_seconds(ttl, "Limiters(ttl=…)", at_least=DAY_SECONDS, error=ConfigurationError)
        if type(reschedule) is not int or reschedule < 0:
            raise ConfigurationError(f"Limiters(reschedule=…) must be a whole number of at least 0, got {reschedule!r}")
        if not callable(backoff):
            raise ConfigurationError(f"Limiters(backoff=…) must be a function, got {backoff!r}")
        for error in cast("tuple[object, ...]", errors):
            if not (isinstance(error, type) and issubclass(error, Exception)):
                raise ConfigurationError(f"Limiters(errors=…) must be classes of exceptions, got {error!r}")
        self.settings = LimiterSettings(server, reschedule, backoff, ttl_seconds)
        self._errors: tuple[type[Exception], ...] = (OverLimit, *errors)

    def install(self, config: Config) -> None:
        """Add the middleware, the web tab, metrics and the doctor check."""
        config.server_middleware.add(self._run)
        config.add_web_tab(make_tab())
        config.metric_families.append(families)
        config.doctor_checks.append(check_limiters)

    @sets_context  # an error that leaves the process of an isolated job has only the name of its limiter
    def _run(self, job: JobContext) -> Middleware:
        """Middleware: reschedule a job over a limit."""
        try:
            yield
        except self._errors as error:
            self._reschedule(job, error)
            raise

    def _reschedule(self, job: JobContext, error: Exception) -> None:
        """Raise `Overrated`, unless the job has used up its reschedules: then the error is a failure."""
        limiter: Limiter | None = error.limiter if isinstance(error, OverLimit) else None
        most = None if limiter is None else limiter.reschedule
        count = max(0, job.payload.get("overrated", 0))
        if count >= (self.settings.reschedule if most is None else most):
            return
        job.payload["overrated"] = count + 1
        backoff = (limiter and limiter.backoff) or self.settings.backoff
        raise Overrated(backoff(limiter, job, error), reason=message_of(error), limit=None) from error


class Overrated(Reschedule):
    """Reschedules a job over a limit; counted apart from the reschedules of the job itself."""

    counter = "overrated"
