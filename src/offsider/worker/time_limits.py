"""Time limits of running jobs: one thread for all of a worker, which sleeps until the next limit.

1. A job with ``soft_timeout`` or ``hard_timeout`` is watched from right before ``perform`` to right after. Jobs
   without cost nothing here, and while there were none there is no thread.
2. At the soft limit `SoftTimeout` is raised in the job: in a thread through its window, in a coroutine at its
   ``await``.
3. Nothing can be raised in a thread that waits in a system call, or runs C code. So it is looked a second later
   whether it has landed; if not, the log says where the job hangs.
4. At the hard limit `HardTimeout` is raised in the same way.
5. What still runs a second later has failed with it, by a call of ``overrun``: a thread cannot be killed, so the
   outcome is written without it, and the worker ends.

A job that holds the interpreter holds this thread too: it is told about when it comes back.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from threading import Lock
from typing import TYPE_CHECKING, Any

from offsider.core.errors import HardTimeout, SoftTimeout
from offsider.wiring.service import Loop

if TYPE_CHECKING:
    from offsider.jobs.registry import Declared
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext
    from offsider.worker.reach import Reach

logger = logging.getLogger("offsider")

SOFT, HARD = "soft_timeout", "hard_timeout"
#: How long an error may take to land, and a job to end at its hard limit, before more is done about it.
GRACE_SECONDS = 1.0
IDLE_SECONDS = 3600.0
#: So many entries of ended jobs may lie about, beside as many as there are jobs, before they are thrown out.
STALE_ENTRIES = 256

Overrun = Callable[[HardTimeout, float], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a job may run, in seconds; None is as long as it likes."""

    soft_seconds: float | None
    hard_seconds: float | None

    @property
    def first_seconds(self) -> float:
        """The limit that a job has to keep to be told nothing."""
        return next(limit for limit in (self.soft_seconds, self.hard_seconds) if limit is not None)


def limits_of(job: JobContext, config: Config) -> Limits | None:
    """The limits that its payload, else its declaration, else the configuration gives a job; None without any."""
    declared: Mapping[str, Any] = getattr(job.declared, "options", {})
    layers: tuple[Mapping[str, Any], ...] = (job.payload, declared, config.jobs)
    soft, hard = _seconds(SOFT, layers), _seconds(HARD, layers)
    if soft is not None and hard is not None and hard <= soft:
        soft = None  # from different layers, of which no single one could be refused
    return None if soft is None and hard is None else Limits(soft, hard)


def _seconds(key: str, layers: tuple[Mapping[str, Any], ...]) -> float | None:
    for layer in layers:
        given = layer.get(key)
        if given is not None:
            seconds: float = given.total_seconds() if isinstance(given, timedelta) else given
            return seconds if seconds > 0 else None
    return None


class Step(Enum):
    """What is due next for a watched job."""

    SOFT = auto()
    SOFT_GRACE = auto()
    HARD = auto()
    HARD_GRACE = auto()


class Watched:
    """A job that runs under limits."""

    def __init__(self, job: JobContext, limits: Limits, reach: Reach, overrun: Overrun, started: float) -> None:
        self.job = job
        self.limits = limits
        self.reach = reach
        self.overrun = overrun
        self.started = started
        self.step = Step.SOFT if limits.soft_seconds is not None else Step.HARD
        self.ended = False
        self.given_up = False
        self.aimed = False
        self.landed = False
        self.told = False

    def __str__(self) -> str:
        return f"job {self.job.jid} ({self.job.name})"

    @property
    def due(self) -> float:
        """When the next step is due, by the clock that started it."""
        soft, hard = self.limits.soft_seconds or 0.0, self.limits.hard_seconds or 0.0
        after = {
            Step.SOFT: soft,
            Step.SOFT_GRACE: soft + GRACE_SECONDS,
            Step.HARD: hard,
            Step.HARD_GRACE: hard + GRACE_SECONDS,
        }
        return self.started + after[self.step]

    def go_on(self) -> bool:
        """Set the next step; False when there is none."""
        hard = self.limits.hard_seconds
        if self.step is Step.SOFT and (hard is None or self.limits.first_seconds + GRACE_SECONDS < hard):
            self.step = Step.SOFT_GRACE
        elif self.step in (Step.SOFT, Step.SOFT_GRACE) and hard is not None:
            self.step = Step.HARD
        elif self.step is Step.HARD:
            self.step = Step.HARD_GRACE
        else:
            return False
        return True

    def aim(self) -> None:
        """Raise the error of the limit that has been reached."""
        hard = self.step in (Step.HARD, Step.HARD_GRACE)
        self.aimed = self.landed = False
        kind, message = (HardTimeout, self.hard_message) if hard else (SoftTimeout, self.soft_message)
        self.aimed = self.reach.aim(kind, message, self._has_landed)

    def _has_landed(self) -> None:
        self.landed = True

    @property
    def soft_message(self) -> str:
        return f"the job has run for its soft limit of {self.limits.soft_seconds:g} s"

    @property
    def hard_message(self) -> str:
        return f"the job has run for its hard limit of {self.limits.hard_seconds:g} s"


class TimeLimits:
    """The limits of all running jobs of a worker. A service that starts itself at the first job with a limit.

    Args:
        config: has the default limits, and is told of errors in the thread.
        now: the monotonic clock.
    """

    def __init__(self, config: Config, now: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._by_default = SOFT in config.jobs or HARD in config.jobs
        self._now = now
        self._lock = Lock()
        self._due: list[tuple[float, int, Watched]] = []
        self._numbers = itertools.count()
        self._running = 0
        self._loop = Loop("offsider-time-limits", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.stop = self._loop.stop
        self.join = self._loop.join

    def start(self) -> None:
        """Nothing to do: it begins with the first job that has a limit."""

    def of(self, job: JobContext, declared: Declared) -> Limits | None:
        """The limits of a job; None without any. Asked for every job, so the usual answer comes first."""
        payload, options = job.payload, declared.options
        if not (self._by_default or SOFT in payload or HARD in payload or SOFT in options or HARD in options):
            return None
        return limits_of(job, self._config)

    def watch(self, job: JobContext, limits: Limits, reach: Reach, overrun: Overrun) -> Watched:
        """Watch a job from now on, until `end`.

        Args:
            overrun: called with the error, and the seconds that the job has run, when it still runs a moment after
                its hard limit. Whatever its run comes to is void from then on.
        """
        watched = Watched(job, limits, reach, overrun, self._now())
        job.ends_at = watched.started + limits.first_seconds
        with self._lock:
            self._running += 1
            self._push(watched)
            if len(self._due) > 2 * self._running + STALE_ENTRIES:
                self._due = [entry for entry in self._due if not entry[2].ended]
                heapq.heapify(self._due)
            is_next = self._due[0][2] is watched
            self._loop.start()
        if is_next:
            self._loop.wake()
        return watched

    def end(self, watched: Watched) -> bool:
        """The job has ended, and nothing can be raised in its thread any more. False when it was given up before."""
        with self._lock:
            watched.ended = True
            self._running -= 1
        if watched.given_up:
            return False
        late_seconds = self._now() - watched.started - watched.limits.first_seconds
        if late_seconds > GRACE_SECONDS and not (watched.landed or watched.told):
            logger.warning("%s ended %.1f s after its time limit: nothing could be raised in it", watched, late_seconds)
        return True

    def tick(self) -> float:
        """Do what is due; answers the seconds until there is more."""
        while True:
            with self._lock:
                while self._due and self._due[0][2].ended:
                    heapq.heappop(self._due)
                if not self._due:
                    return IDLE_SECONDS
                pause_seconds = self._due[0][0] - self._now()
                if pause_seconds > 0:
                    return pause_seconds
                _, _, watched = heapq.heappop(self._due)
                step = watched.step
                self._take_step(watched)
            self._tell(watched, step)

    def _push(self, watched: Watched) -> None:
        heapq.heappush(self._due, (watched.due, next(self._numbers), watched))

    def _take_step(self, watched: Watched) -> None:
        """With the lock held, so that the job cannot end meanwhile, and another begin in its thread."""
        if watched.step is Step.HARD_GRACE:
            watched.given_up = True
        elif watched.step in (Step.SOFT, Step.HARD) or not watched.aimed:
            watched.aim()
        if watched.go_on():
            self._push(watched)

    def _tell(self, watched: Watched, step: Step) -> None:
        if step in (Step.SOFT, Step.HARD) or (step is Step.SOFT_GRACE and watched.landed):
            return
        watched.told = True
        place = watched.reach.place()
        where = f" at {place}" if place else ""
        if step is Step.SOFT_GRACE:
            logger.warning(
                "%s is not interruptible: its soft limit of %g s has passed, and it hangs in a system call or in C "
                "code%s, where Python raises nothing",
                watched,
                watched.limits.soft_seconds,
                where,
            )
            return
        logger.error(
            "%s still runs%s, though its hard limit of %g s has passed: it has failed, and the worker ends, since a "
            "thread cannot be killed",
            watched,
            where,
            watched.limits.hard_seconds,
        )
        watched.overrun(HardTimeout(watched.hard_message), self._now() - watched.started)
