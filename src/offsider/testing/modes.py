"""The three test modes: pushes stay in memory (fake), run at once (inline), or go to Redis (disabled).

A mode applies to the whole process, including pushes of other threads. Blocks may be nested; the innermost one wins.
`assert_enqueued` and `assert_not_enqueued` are the methods of the `Recorder` of the active `fake` mode.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.default import default_config
from offsider.config.hooks import Prepared
from offsider.core.errors import ConfigurationError, OffsiderError, Reschedule, TooManyReschedules, Waiting
from offsider.core.payload import rescheduled
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.jobs.enqueuer import Delay, JobCall, Moment
from offsider.jobs.inline import run_chunk, run_prepared
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import ServerChain, ServerMiddleware
from offsider.testing.enqueued_job import AnyJob, EnqueuedJob, name_of, shown_call
from offsider.testing.expectation import expect, not_enough, undecided, unexpected, waiting

logger = logging.getLogger("offsider")

DRAIN_LIMIT = 10_000
P = ParamSpec("P")
T = TypeVar("T")


class Runner:
    """Runs jobs.

    Args:
        config: server middleware to run; default: the configuration of this process, read when it is needed.
        server_middleware: additional server middleware of the test, inside of that.
    """

    def __init__(self, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> None:
        self._config = config
        self._middleware = tuple(server_middleware)

    @property
    def config(self) -> Config:
        return default_config() if self._config is None else self._config

    def run(self, prepared: Prepared) -> tuple[Any, Sequence[Prepared]]:
        """Run a job. Return its result, None after ``Discard`` and ``Skip``, and the steps of a workflow that follow.

        Raises:
            UnknownJob: no job is registered under its name.
            Reschedule: the job has to run later.
            BaseException: the error of the job, with a note that names the job.
        """
        following = list[Prepared]()
        try:
            follow = partial(_follow, following)
            return run_prepared(self.config, prepared, server_middleware=self.chain(), succeeded=follow), following
        except BaseException as error:
            _note(error, prepared)
            raise

    def chain(self) -> ServerChain:
        chain = self.config.server_middleware.copy()
        chain.add(*self._middleware)
        return chain


def _follow(following: list[Prepared], job: JobContext, result: Any) -> None:
    if job.jid in test_mode.followers:
        following.extend(test_mode.followers.pop(job.jid)(job, result))


def _note(error: BaseException, prepared: Prepared) -> None:
    payload = prepared.payload
    name = shown_call(payload["class"], payload["args"], payload.get("kwargs") or {})
    error.add_note(f"while running the job {name}")


class NothingEnqueued(OffsiderError, LookupError):
    """`Recorder.perform_one` found no job to run."""


class Recorder:
    """The jobs that were pushed in fake mode, oldest first. All threads of the process share it.

    Args:
        config: server middleware and clock for drained jobs; default: the configuration of this process.
        server_middleware: additional server middleware for drained jobs, inside of that of the configuration.
    """

    def __init__(self, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> None:
        self._runner = Runner(config, server_middleware)
        self._lock = threading.Lock()
        self._jobs: list[EnqueuedJob] = []
        self._performed: list[EnqueuedJob] = []

    def __call__(self, pushed: Sequence[Prepared]) -> None:
        """Record the jobs that a client would have stored."""
        jobs = [EnqueuedJob.of(prepared) for prepared in pushed]
        with self._lock:
            self._jobs += jobs

    # ------------------------------------------------------------------------------------ reading
    @property
    def jobs(self) -> list[EnqueuedJob]:
        """Every job that was pushed and has not run yet, including scheduled jobs.

        A push that waits for the commit of a transaction is not among them yet.
        """
        with self._lock:
            return list(self._jobs)

    @property
    def performed(self) -> list[EnqueuedJob]:
        """The jobs that have run successfully, in order; a failed job is in neither list."""
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
        """Return the jobs of one function, class or name."""
        name = name_of(job)
        return [each for each in self.jobs if each.name == name]

    def clear(self) -> None:
        """Remove all jobs, including performed ones."""
        with self._lock:
            self._jobs.clear()
            self._performed.clear()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[EnqueuedJob]:
        return iter(self.jobs)

    def __bool__(self) -> bool:
        return True  # also if it is empty

    def __repr__(self) -> str:
        return f"<Recorder of {counted(len(self), 'job')}>"

    # ------------------------------------------------------------------------------------ running
    def drain(self, job: AnyJob | None = None, *, only_due: bool = False, limit: int = DRAIN_LIMIT) -> int:
        """Run the jobs, and the jobs that they enqueue, until none is left; return the number of runs.

        A job that raises ``Reschedule`` is enqueued again for later and does not run again in this call.
        There are no retries: an error of a job ends the drain, and the job is removed.

        Args:
            job: run only jobs of this function, class or name; the others stay.
            only_due: skip scheduled jobs that are not due by the clock (`FakeClock`); by default they run, too.
            limit: maximum number of runs, for jobs that enqueue themselves forever.

        Raises:
            AssertionError: there were more jobs than ``limit``.
            UnknownJob: a job is not declared in this process.
            BaseException: whatever a job raises, with a note that names the job.
        """
        name = None if job is None else name_of(job)
        for_later: list[EnqueuedJob] = []
        done = 0
        try:
            while (found := self._take(name, only_due=only_due, may=done < limit)) is not None:
                others = self._others(found, only_due=only_due, most=limit - done - 1)
                done += 1 + len(others)
                if others:
                    self._perform_chunk([found, *others], for_later)
                else:
                    self._perform(found, for_later)
        finally:
            self._put_back(for_later)
        if not done:
            for line in waiting():
                logger.warning("drain ran no job: %s", line)
        return done

    def perform_one(self, job: AnyJob | None = None) -> Any:
        """Run the oldest job (of one kind), even if it is scheduled for later, and return its result.

        None after ``Discard``, ``Skip`` and ``Reschedule``; the latter enqueues it again for later.

        Raises:
            NothingEnqueued: no such job is enqueued.
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

    # ----------------------------------------------------------------------------------- assertions
    def assert_enqueued(
        self,
        job: AnyJob | JobCall[..., Any],
        /,
        *args: Any,
        queue: str | None = None,
        at: Moment | None = None,
        in_: Delay | None = None,
        count: int | None = None,
        **kwargs: Any,
    ) -> EnqueuedJob:
        """Assert that a job was enqueued, and return the oldest matching job.

        ::

            assert_enqueued(welcome)                                    # with any arguments
            assert_enqueued(welcome, 42)                                # with these
            assert_enqueued(welcome, 42, queue="low", in_=60)
            assert_enqueued(welcome.using(retry=5), 42)                 # with these options
            assert_enqueued(welcome.call(42), count=2)                  # arguments checked by the type checker

        Drained jobs do not count.

        Args:
            job: a job function or class, also after ``.using(...)``; ``job.call(...)``; a task of ``django.tasks``,
                whose options are not compared; or the name of a job that is declared elsewhere.
            args: its arguments; without any, all arguments match. ``unittest.mock.ANY`` matches any argument. For a job
                without arguments, and for parameters with the names below, use ``job.call(...)``.
            queue: its queue.
            at: when it is due, an aware datetime or epoch seconds; within a second.
            in_: when it is due, seconds or a timedelta from the push; within a second. 0: at once.
            count: exact number of matching jobs; default: at least one.
            kwargs: keyword arguments.

        Raises:
            AssertionError: no job matches (or the number differs); the message lists the jobs and the closest match.
            InvalidArguments: the job could never be enqueued with these arguments.
        """
        __tracebackhide__ = True
        if count is not None and count < 1:
            raise ValueError(f"count expects 1 or more, got {count!r}; for no job use assert_not_enqueued")
        expected = expect(job, args, kwargs, queue=queue, at=at, in_=in_)
        jobs = self.jobs
        found = [each for each in jobs if expected.matches(each)]
        if not found or count not in (None, len(found)):
            raise AssertionError(not_enough(expected, jobs, count, len(self.performed)))
        return found[0]

    def assert_not_enqueued(
        self,
        job: AnyJob | JobCall[..., Any],
        /,
        *args: Any,
        queue: str | None = None,
        at: Moment | None = None,
        in_: Delay | None = None,
        **kwargs: Any,
    ) -> None:
        """Assert that no such job was enqueued. Arguments and errors as for `assert_enqueued`.

        It also fails while a push of this job, with any arguments, waits for the commit of a transaction: the job may
        still be enqueued.
        """
        __tracebackhide__ = True
        expected = expect(job, args, kwargs, queue=queue, at=at, in_=in_)
        jobs = self.jobs
        if any(map(expected.matches, jobs)):
            raise AssertionError(unexpected(expected, jobs))
        if (message := undecided(expected)) is not None:
            raise AssertionError(message)

    # ------------------------------------------------------------------------------------ helpers
    def _take(self, name: str | None, *, only_due: bool = False, may: bool = True) -> EnqueuedJob | None:
        """Remove and return the oldest job of that kind."""
        now = self._runner.config.clock.now() if only_due else float("inf")
        with self._lock:
            for index, job in enumerate(self._jobs):
                if name in (None, job.name) and job.is_due(now):
                    if not may:
                        raise AssertionError(
                            f"drain() reached its limit, and {job} is still enqueued: check whether jobs enqueue "
                            "themselves forever, or raise the limit: drain(limit=...)"
                        )
                    return self._jobs.pop(index)
        return None

    def _perform(self, job: EnqueuedJob, for_later: list[EnqueuedJob]) -> Any:
        # This recorder receives the jobs that the job enqueues, even if another mode is active.
        with test_mode.diverted(self):
            try:
                result, following = self._runner.run(job.prepared())
            except (Reschedule, Waiting) as signal:
                self._reschedule(job, signal, for_later)
                return None
        with self._lock:
            self._performed.append(job)
        self(following)
        return result

    def _others(self, job: EnqueuedJob, *, only_due: bool, most: int) -> list[EnqueuedJob]:
        """Remove and return the jobs that run in one call with this one."""
        declared = registry.peek(job.name)
        most = 0 if declared is None else min(declared.chunk - 1, most)
        taken = [self._take(job.name, only_due=only_due) for _ in range(most)]
        return [other for other in taken if other is not None]

    def _perform_chunk(self, jobs: Sequence[EnqueuedJob], for_later: list[EnqueuedJob]) -> None:
        following, failures = list[Prepared](), list[BaseException]()
        prepared = [job.prepared() for job in jobs]
        with test_mode.diverted(self):
            errors = run_chunk(prepared, registry.find(jobs[0].name), self._runner.chain(), partial(_follow, following))
        for job, error in zip(jobs, errors, strict=True):
            if isinstance(error, Reschedule):
                self._reschedule(job, error, for_later)
            elif error is not None:
                failures.append(error)
                _note(error, job.prepared())
            else:
                with self._lock:
                    self._performed.append(job)
        self(following)
        if failures:
            raise failures[0]

    def _reschedule(self, job: EnqueuedJob, signal: Reschedule | Waiting, for_later: list[EnqueuedJob]) -> None:
        if signal.limit is not None and job.payload.get("rescheduled_count", 0) >= signal.limit:
            raise TooManyReschedules(signal.limit) from signal
        at = self._runner.config.clock.now() + signal.seconds
        for_later.append(EnqueuedJob.of(replace(job.prepared(), raw=rescheduled(job.raw, signal.counter), at=at)))

    def _put_back(self, jobs: Iterable[EnqueuedJob]) -> None:
        with self._lock:
            self._jobs += jobs

    def _what_is_there(self) -> str:
        names = sorted({job.name for job in self.jobs})
        there = f"; there are jobs of {', '.join(names)}" if names else ", nor any other" if self.performed else ""
        return ". ".join([there, *waiting()])


@contextmanager
def fake(
    *, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()
) -> Generator[Recorder, None, None]:
    """Record every push of this process in memory during the block, and yield the `Recorder`.

    Client middleware runs and arguments are checked as usual.

    Args:
        config: server middleware and clock for drained jobs; default: the configuration of this process.
        server_middleware: additional server middleware for drained jobs, inside of that of the configuration.
    """
    _warn_outside_tests("fake")
    recorder = Recorder(config, server_middleware)
    with test_mode.diverted(recorder):
        yield recorder


@contextmanager
def inline(
    *, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()
) -> Generator[None, None, None]:
    """Run every job at its push, during the block.

    Arguments are converted to JSON and back, client and server middleware run, scheduled jobs run at once, and the
    push raises the error of the job; also ``Reschedule``, because no worker exists to run the job later.

    Args:
        config, server_middleware: as for `fake`.
    """
    _warn_outside_tests("inline")
    runner = Runner(config, server_middleware)

    def run(pushed: Sequence[Prepared]) -> None:
        jobs = deque(pushed)
        while jobs:
            _, following = runner.run(jobs.popleft())
            jobs.extend(following)

    with test_mode.diverted(run):
        yield


@contextmanager
def disabled() -> Generator[None, None, None]:
    """Push to Redis during the block, as without a test mode."""
    with test_mode.diverted(None):
        yield


def _warn_outside_tests(mode: str) -> None:
    """Warn outside of tests: in production, jobs that never reach Redis would be lost silently."""
    if not test_mode.is_test():
        logger.warning(
            "offsider's %s mode is on, and this does not look like a test: jobs do not go to Redis. "
            "OFFSIDER_ENV=test silences this",
            mode,
        )


def _of_current_mode(assertion: Callable[Concatenate[Recorder, P], T]) -> Callable[P, T]:
    """Return a method of `Recorder` as a function that uses the recorder of the active fake mode."""

    @functools.wraps(assertion)
    def function(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        sink = test_mode.current()
        if not isinstance(sink, Recorder):
            mode = "pushes go to Redis" if sink is None else "inline mode is on"
            raise ConfigurationError(
                f"{assertion.__name__} needs fake mode, but {mode}: use it inside `with testing.fake():` "
                "or with the fixture offsider_fake"
            )
        return assertion(sink, *args, **kwargs)

    return function


assert_enqueued = _of_current_mode(Recorder.assert_enqueued)
"""`Recorder.assert_enqueued` of the active `fake` mode. Raises ConfigurationError if fake mode is not on."""

assert_not_enqueued = _of_current_mode(Recorder.assert_not_enqueued)
"""`Recorder.assert_not_enqueued` of the active `fake` mode. Raises ConfigurationError if fake mode is not on."""
