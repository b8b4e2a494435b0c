"""Time limits of running jobs. One thread per worker sleeps until the next limit.

1. A job with ``soft_timeout`` or ``hard_timeout`` is watched from right before ``perform`` to right after. Jobs
   without limits have no overhead, and the thread starts with the first job that has one.
2. At the soft limit, the thread raises `SoftTimeout` in the job: in a thread through its window, in a coroutine at its
   ``await``. An iteration ends before its next element instead, and continues in another run.
3. Python cannot raise an exception in a thread that waits in a system call or runs C code. So the thread checks one
   second later whether the exception was raised; if not, a warning reports where the job hangs.
4. At the hard limit, the thread raises `HardTimeout` in the same way.
5. One second later, a job that still runs has failed: the thread calls ``overrun``. A thread cannot be killed, so the
   outcome is written while the job still runs, and the worker ends. The process of an isolated job is killed.

A job that keeps the GIL blocks this thread too: the overrun is reported when the GIL is released.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from threading import Lock
from typing import TYPE_CHECKING, Any

from offsider.core.clock import MAX_SECONDS
from offsider.core.errors import HardTimeout, SoftTimeout
from offsider.core.outcome import Failed
from offsider.logs.structured import about_running
from offsider.runtime.service import Loop
from offsider.worker.run.interrupt import OBSTACLE
from offsider.worker.unit_of_work import Run

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

SOFT, HARD = "soft_timeout", "hard_timeout"
#: Time for an error to be raised, and for a job to end after its hard limit, before the next step.
GRACE_SECONDS = 1.0
IDLE_SECONDS = 3600.0
#: Ended jobs are removed from the heap when it has this many entries more than twice the number of running jobs.
STALE_ENTRIES = 256

Overrun = Callable[[HardTimeout, float], None]


class LimitStep(Enum):
    """A step for a job with time limits."""

    SOFT = auto()
    SOFT_GRACE = auto()
    HARD = auto()
    HARD_GRACE = auto()


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The time limits of a job in seconds; None means no limit."""

    soft_seconds: float | None
    hard_seconds: float | None

    @property
    def first_seconds(self) -> float:
        """The limit that is reached first."""
        return next(limit for limit in (self.soft_seconds, self.hard_seconds) if limit is not None)

    def steps(self) -> Iterator[tuple[float, LimitStep]]:
        """Return the steps, each with its time since the start, in their order."""
        soft, hard = self.soft_seconds, self.hard_seconds
        if soft is not None:
            yield soft, LimitStep.SOFT
            if hard is None or soft + GRACE_SECONDS < hard:
                yield soft + GRACE_SECONDS, LimitStep.SOFT_GRACE
        if hard is not None:
            yield hard, LimitStep.HARD
            yield hard + GRACE_SECONDS, LimitStep.HARD_GRACE


def limits_of(job: JobContext, config: Config) -> JobLimits | None:
    """Return the limits of a job, from its payload, else its declaration, else the configuration; None without any."""
    declared: Mapping[str, Any] = getattr(job.declared, "options", {})
    layers: tuple[Mapping[str, Any], ...] = (job.payload, declared, config.jobs)
    soft, hard = _seconds(SOFT, layers), _seconds(HARD, layers)
    if soft is not None and hard is not None and hard <= soft:
        soft = None  # they come from different layers, each of them valid by itself
    return None if soft is None and hard is None else JobLimits(soft, hard)


def _seconds(key: str, layers: tuple[Mapping[str, Any], ...]) -> float | None:
    for layer in layers:
        given = layer.get(key)
        if given is not None:
            seconds: float = given.total_seconds() if isinstance(given, timedelta) else given
            return min(seconds, MAX_SECONDS) if seconds > 0 else None
    return None


class Watched:
    """A running job with time limits.

    Attributes:
        steps: those that are left, the next one first.
    """

    def __init__(self, job: JobContext, limits: JobLimits, overrun: Overrun, started: float) -> None:
        self.job = job
        self.limits = limits
        self.overrun = overrun
        self.started = started
        self.steps = deque((started + seconds, step) for seconds, step in limits.steps())
        self.number = 0
        self.given_up = False
        self.aimed = False
        self.landed = False
        self.told = False

    def __str__(self) -> str:
        return f"job {self.job.jid} ({self.job.name})"

    def aim(self, step: LimitStep) -> None:
        """Raise the error of the limit that was reached."""
        self.aimed = self.landed = False
        reach = self.job.reach
        if reach is None:
            return
        if step is not LimitStep.HARD and self.job.iterates:
            self.job.must_yield = self.aimed = self.landed = True
        elif step is LimitStep.HARD:
            self.aimed = reach.aim(HardTimeout, self.hard_message, self._has_landed)
        else:
            message = f"the job exceeded its soft limit of {self.limits.soft_seconds:g} s ({SOFT})"
            self.aimed = reach.aim(SoftTimeout, message, self._has_landed)

    def _has_landed(self) -> None:
        self.landed = True

    @property
    def hard_message(self) -> str:
        return f"the job exceeded its hard limit of {self.limits.hard_seconds:g} s ({HARD})"


class TimeLimits(Loop):
    """The service that enforces the limits of all running jobs of a worker.

    Args:
        config: has the default limits and the error handlers for this thread.
        now: the monotonic clock.
    """

    def __init__(self, config: Config, now: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._by_default = SOFT in config.jobs or HARD in config.jobs
        self._now = now
        self._lock = Lock()
        #: Time and number of each next step; also of jobs that have ended, until the step is due.
        self._due: list[tuple[float, int]] = []
        self._watched: dict[int, Watched] = {}
        self._numbers = itertools.count()
        super().__init__("offsider-time-limits", self.tick, config.handle_error)

    def start(self) -> None:
        """Do nothing: the thread starts with the first job that has a limit."""

    def enforce(
        self, job: JobContext, unit: UnitOfWork, overran: Callable[[UnitOfWork, Run], None]
    ) -> Callable[[], None] | None:
        """Enforce the limits of a job from now on; return a function that ends this, or None for a job without limits.

        Args:
            overran: called with the unit and the run of a job that still runs after its hard limit, and so has failed.
        """
        payload, options = job.payload, job.declared.options  # this runs for every job: the usual case comes first
        if not (self._by_default or SOFT in payload or HARD in payload or SOFT in options or HARD in options):
            return None
        limits = limits_of(job, self._config)
        if limits is None:
            return None
        started_at = self._config.clock.now()

        def overrun(error: HardTimeout, seconds: float) -> None:
            overran(unit, Run(job, Failed(error), started_at, seconds, None))

        watched = self.watch(job, limits, overrun)

        def end() -> None:
            if not self.end(watched):
                unit.settled = True  # its outcome was written when it exceeded its hard limit

        return end

    def enforce_together(
        self, jobs: Sequence[tuple[JobContext, UnitOfWork]], overran: Callable[[UnitOfWork, Run], None]
    ) -> Callable[[], None] | None:
        """As `enforce`, for jobs that run in one call: the shortest limits of all."""
        found = [limits for job, _ in jobs if (limits := limits_of(job, self._config)) is not None]
        if not found:
            return None
        soft = min((each.soft_seconds for each in found if each.soft_seconds is not None), default=None)
        hard = min((each.hard_seconds for each in found if each.hard_seconds is not None), default=None)
        started_at = self._config.clock.now()

        def overrun(error: HardTimeout, seconds: float) -> None:
            for job, unit in jobs:
                overran(unit, Run(job, Failed(error), started_at, seconds, None))

        limits = JobLimits(None if soft is not None and hard is not None and hard <= soft else soft, hard)
        watched = self.watch(jobs[0][0], limits, overrun)
        for job, _ in jobs:
            job.ends_at = jobs[0][0].ends_at

        def end() -> None:
            if not self.end(watched):
                for _, unit in jobs:
                    unit.settled = True

        return end

    def watch(self, job: JobContext, limits: JobLimits, overrun: Overrun) -> Watched:
        """Watch a job from now on, until `end`.

        Args:
            overrun: called with the error and the run time in seconds if the job still runs GRACE_SECONDS after its
                hard limit. A later outcome of the run is ignored.
        """
        watched = Watched(job, limits, overrun, self._now())
        job.ends_at = watched.started + limits.first_seconds
        with self._lock:
            watched.number = next(self._numbers)
            self._watched[watched.number] = watched
            self._push(watched)
            if len(self._due) > 2 * len(self._watched) + STALE_ENTRIES:
                self._due = [entry for entry in self._due if entry[1] in self._watched]
                heapq.heapify(self._due)
            is_next = self._due[0][1] == watched.number
            super().start()
        if is_next:
            self.wake()
        return watched

    def end(self, watched: Watched) -> bool:
        """Stop watching a job that has ended; False if ``overrun`` was called for it before.

        Call it after the window of the job is closed, or on the event loop when its coroutine has ended: from then on
        no error can be raised in the job.
        """
        with self._lock:
            del self._watched[watched.number]
        if watched.given_up:
            return False
        late_seconds = self._now() - watched.started - watched.limits.first_seconds
        if late_seconds > GRACE_SECONDS and not (watched.landed or watched.told):
            logger.warning(
                "%s ended %.1f s after its time limit: Python could not interrupt it",
                watched,
                late_seconds,
                extra={"fields": about_running(watched.job)},
            )
        return True

    def tick(self) -> float:
        """Take all due steps; return the seconds until the next one."""
        while True:
            with self._lock:
                while self._due and self._due[0][1] not in self._watched:
                    heapq.heappop(self._due)
                if not self._due:
                    return IDLE_SECONDS
                pause_seconds = self._due[0][0] - self._now()
                if pause_seconds > 0:
                    return pause_seconds
                watched = self._watched[heapq.heappop(self._due)[1]]
                step = self._take_step(watched)
            self._tell(watched, step)

    def _push(self, watched: Watched) -> None:
        heapq.heappush(self._due, (watched.steps[0][0], watched.number))

    def _take_step(self, watched: Watched) -> LimitStep:
        """Take the next step. The caller holds the lock: the job must not end and its thread begin another one."""
        _, step = watched.steps.popleft()
        if step is LimitStep.HARD_GRACE:
            reach = watched.job.reach
            watched.told = reach is not None and reach.kill(HardTimeout(watched.hard_message))
            watched.given_up = not watched.told
        elif step is not LimitStep.SOFT_GRACE or not watched.aimed:
            watched.aim(step)
        if watched.steps:
            self._push(watched)
        return step

    def _tell(self, watched: Watched, step: LimitStep) -> None:
        if step in (LimitStep.SOFT, LimitStep.HARD) or (step is LimitStep.SOFT_GRACE and watched.landed):
            return
        if step is LimitStep.HARD_GRACE and not watched.given_up:
            logger.warning(
                "%s was still running after its hard limit of %g s: its process was killed",
                watched,
                watched.limits.hard_seconds,
                extra={"fields": about_running(watched.job)},
            )
            return
        watched.told = True
        place = "" if watched.job.reach is None else watched.job.reach.place()
        where = f" at {place}" if place else ""
        if step is LimitStep.SOFT_GRACE:
            hangs = f"it is in a system call or in C code{where}, which Python cannot interrupt"
            logger.warning(
                "%s could not be interrupted at its soft limit of %g s: %s",
                watched,
                watched.limits.soft_seconds,
                f"{OBSTACLE}{where}" if OBSTACLE and not watched.aimed else hangs,
                extra={"fields": about_running(watched.job)},
            )
            return
        logger.error(
            "%s is still running%s after its hard limit of %g s: the job failed, and this worker exits, because Python "
            "cannot stop a thread",
            watched,
            where,
            watched.limits.hard_seconds,
            extra={"fields": about_running(watched.job)},
        )
        watched.overrun(HardTimeout(watched.hard_message), self._now() - watched.started)
