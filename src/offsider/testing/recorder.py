"""Fake mode's memory: the jobs that were pushed and not run yet."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from offsider.client.prepared import Prepared
from offsider.core.errors import OffsiderError, Reschedule
from offsider.jobs.call import Call
from offsider.jobs.enqueuer import Delay, Moment
from offsider.testing import failure, wording
from offsider.testing.enqueued_job import AnyJob, EnqueuedJob, name_of
from offsider.testing.expectation import expect
from offsider.testing.run import Runner
from offsider.wiring import sinks
from offsider.wiring.config import Config
from offsider.wiring.middleware import ServerMiddleware

DRAIN_LIMIT = 10_000


class NothingEnqueued(OffsiderError, LookupError):
    """`Recorder.perform_one` found no job to run."""


class Recorder:
    """The jobs that were pushed in fake mode, oldest first. All threads of the process share it.

    Args:
        config: whose server middleware and clock drained jobs see; default: this process's configuration.
        server_middleware: for drained jobs, inside of that of the configuration.
    """

    def __init__(self, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> None:
        self._runner = Runner(config, server_middleware)
        self._lock = threading.Lock()
        self._jobs: list[EnqueuedJob] = []
        self._performed: list[EnqueuedJob] = []

    def __call__(self, pushed: Sequence[Prepared]) -> None:
        """Take what a client would have stored."""
        jobs = [EnqueuedJob.of(prepared) for prepared in pushed]
        with self._lock:
            self._jobs += jobs

    # ------------------------------------------------------------------------------------ looking
    @property
    def jobs(self) -> list[EnqueuedJob]:
        """Every job that was pushed and not run yet, scheduled ones included."""
        with self._lock:
            return list(self._jobs)

    @property
    def performed(self) -> list[EnqueuedJob]:
        """The jobs that were run to their end, in that order; a job that failed is in neither list."""
        with self._lock:
            return list(self._performed)

    @property
    def queues(self) -> Mapping[str, list[EnqueuedJob]]:
        """The jobs of each queue by its name; a queue without jobs is an empty list."""
        found: defaultdict[str, list[EnqueuedJob]] = defaultdict(list)
        for job in self.jobs:
            found[job.queue].append(job)
        return found

    def jobs_of(self, job: AnyJob) -> list[EnqueuedJob]:
        """The jobs of one kind."""
        name = name_of(job)
        return [each for each in self.jobs if each.name == name]

    def clear(self) -> None:
        """Forget all jobs, those that were run as well."""
        with self._lock:
            self._jobs.clear()
            self._performed.clear()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[EnqueuedJob]:
        return iter(self.jobs)

    def __bool__(self) -> bool:
        return True  # a recorder that is empty is still one

    def __repr__(self) -> str:
        return f"<Recorder of {wording.count(len(self), 'job')}>"

    # ------------------------------------------------------------------------------------ running
    def drain(self, job: AnyJob | None = None, *, only_due: bool = False, limit: int = DRAIN_LIMIT) -> int:
        """Run the jobs, and those that they enqueue, until there are none; answer how many ran.

        A job that raises ``Reschedule`` is enqueued again for later and not run a second time by this call.
        Nothing is retried: an error of a job ends the drain, and the job is gone.

        Args:
            job: only jobs of this kind; the others stay.
            only_due: leave scheduled jobs until the clock (`FakeClock`) says that they are due; by default they
                run like all others.
            limit: so many at most, for jobs that enqueue themselves for ever.

        Raises:
            AssertionError: there were more jobs than ``limit``.
            UnknownJob: a job is declared nowhere in this process.
            BaseException: whatever a job raises, with a note that names the job.
        """
        name = None if job is None else name_of(job)
        for_later: list[EnqueuedJob] = []
        done = 0
        try:
            while (found := self._take(name, only_due=only_due, may=done < limit)) is not None:
                self._perform(found, for_later)
                done += 1
        finally:
            self._put_back(for_later)
        return done

    def drain_all(self) -> int:
        """The same as ``drain()``, by Sidekiq's name."""
        return self.drain()

    def perform_one(self, job: AnyJob | None = None) -> Any:
        """Run the oldest job (of one kind), also when it is scheduled, and answer its result.

        None after ``Discard``, ``Skip`` and ``Reschedule``; the latter enqueues it again for later.

        Raises:
            NothingEnqueued: there is none.
            BaseException: as for `drain`.
        """
        name = None if job is None else name_of(job)
        found = self._take(name)
        if found is None:
            kind = "job" if name is None else f"job {name}"
            raise NothingEnqueued(f"no {kind} is enqueued{self._what_is_there()}")
        for_later: list[EnqueuedJob] = []
        result = self._perform(found, for_later)
        self._put_back(for_later)
        return result

    # ----------------------------------------------------------------------------------- checking
    def assert_enqueued(
        self,
        job: AnyJob | Call[...],
        /,
        *args: Any,
        queue: str | None = None,
        at: Moment | None = None,
        in_: Delay | None = None,
        count: int | None = None,
        **kwargs: Any,
    ) -> EnqueuedJob:
        """As `testing.assert_enqueued`, for the jobs of this recorder."""
        __tracebackhide__ = True
        if count is not None and count < 1:
            raise ValueError(f"count expects 1 or more, got {count!r}; assert_not_enqueued says that there is none")
        expected = expect(job, args, kwargs, queue=queue, at=at, in_=in_)
        jobs = self.jobs
        found = [each for each in jobs if expected.matches(each)]
        if not found or count not in (None, len(found)):
            raise AssertionError(failure.not_enough(expected, jobs, count, len(self.performed)))
        return found[0]

    def assert_not_enqueued(
        self,
        job: AnyJob | Call[...],
        /,
        *args: Any,
        queue: str | None = None,
        at: Moment | None = None,
        in_: Delay | None = None,
        **kwargs: Any,
    ) -> None:
        """As `testing.assert_not_enqueued`, for the jobs of this recorder."""
        __tracebackhide__ = True
        expected = expect(job, args, kwargs, queue=queue, at=at, in_=in_)
        jobs = self.jobs
        if any(map(expected.matches, jobs)):
            raise AssertionError(failure.unexpected(expected, jobs))

    # ---------------------------------------------------------------------------------------- how
    def _take(self, name: str | None, *, only_due: bool = False, may: bool = True) -> EnqueuedJob | None:
        """Take the oldest job of that kind out."""
        now = self._runner.config.clock.now() if only_due else float("inf")
        with self._lock:
            for index, job in enumerate(self._jobs):
                if name in (None, job.name) and job.is_due(now):
                    if not may:
                        raise AssertionError(
                            f"the drain has reached its limit, and there is still {job}: "
                            "do jobs enqueue themselves for ever? If not, raise the limit: drain(limit=...)"
                        )
                    return self._jobs.pop(index)
        return None

    def _perform(self, job: EnqueuedJob, for_later: list[EnqueuedJob]) -> Any:
        # What the job enqueues belongs here, whatever mode surrounds the call.
        with sinks.diverted(self):
            try:
                result = self._runner.run(job.prepared())
            except Reschedule as signal:
                for_later.append(replace(job, at=self._runner.config.clock.now() + signal.seconds))
                return None
        with self._lock:
            self._performed.append(job)
        return result

    def _put_back(self, jobs: Iterable[EnqueuedJob]) -> None:
        with self._lock:
            self._jobs += jobs

    def _what_is_there(self) -> str:
        names = sorted({job.name for job in self.jobs})
        return f"; there are jobs of {', '.join(names)}" if names else ", nor any other" if self.performed else ""
