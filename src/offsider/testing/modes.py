"""The three test modes: pushes stay in memory (fake), run at once (inline), or go to Redis (disabled).

A mode applies to the whole process, including pushes of other threads. Blocks may be nested; the innermost one wins.
The assertions are about the jobs of the active `fake` mode.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from offsider.client.prepared import Prepared
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.core.errors import ConfigurationError
from offsider.jobs.call import Call, Delay
from offsider.jobs.enqueuer import Moment
from offsider.runtime.middleware import ServerMiddleware
from offsider.testing.enqueued_job import AnyJob, EnqueuedJob
from offsider.testing.recorder import Recorder, Runner

logger = logging.getLogger("offsider")

_lock = threading.Lock()
_for_good = ExitStack()


class Inline:
    """Runs pushed jobs in the pushing thread."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __call__(self, pushed: Sequence[Prepared]) -> None:
        jobs = deque(pushed)
        while jobs:
            _, following = self._runner.run(jobs.popleft())
            jobs.extend(following)


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
    with test_mode.diverted(Inline(Runner(config, server_middleware))):
        yield


@contextmanager
def disabled() -> Generator[None, None, None]:
    """Push to Redis during the block, as without a test mode."""
    with test_mode.diverted(None):
        yield


def use_fake(*, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> Recorder:
    """As `fake`, until the process ends or `use_inline` or `use_redis` is called: for a shell, or a test framework
    without context managers. It also applies inside open blocks.
    """
    _warn_outside_tests("fake")
    recorder = Recorder(config, server_middleware)
    _use(recorder)
    return recorder


def use_inline(*, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> None:
    """As `inline`, until the process ends or `use_fake` or `use_redis` is called."""
    _warn_outside_tests("inline")
    _use(Inline(Runner(config, server_middleware)))


def use_redis() -> None:
    """End the mode of `use_fake` or `use_inline`."""
    with _lock:
        _for_good.close()


def current_recorder(asking: str) -> Recorder:
    """Return the recorder of the active fake mode.

    Raises:
        ConfigurationError: another mode is active; the message names the caller.
    """
    sink = test_mode.current()
    if not isinstance(sink, Recorder):
        mode = "inline mode is on" if isinstance(sink, Inline) else "pushes go to Redis"
        raise ConfigurationError(
            f"{asking} needs fake mode, but {mode}: use it inside `with testing.fake():` "
            "or with the fixture offsider_fake"
        )
    return sink


def _use(sink: test_mode.Sink) -> None:
    with _lock:
        _for_good.close()
        _for_good.enter_context(test_mode.diverted(sink))


def _warn_outside_tests(mode: str) -> None:
    """Warn outside of tests: in production, jobs that never reach Redis would be lost silently."""
    if not test_mode.is_test():
        logger.warning(
            "offsider's %s mode is on, and this does not look like a test: jobs do not go to Redis. "
            "OFFSIDER_ENV=test silences this",
            mode,
        )


def assert_enqueued(
    job: AnyJob | Call[..., Any],
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
        job: a job function or class, also after ``.using(...)``; ``job.call(...)``; a task of ``django.tasks``, whose
            options are not compared; or the name of a job that is declared elsewhere.
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
        ConfigurationError: fake mode is not on.
    """
    __tracebackhide__ = True
    recorder = current_recorder("assert_enqueued")
    return recorder.assert_enqueued(job, *args, queue=queue, at=at, in_=in_, count=count, **kwargs)


def assert_not_enqueued(
    job: AnyJob | Call[..., Any],
    /,
    *args: Any,
    queue: str | None = None,
    at: Moment | None = None,
    in_: Delay | None = None,
    **kwargs: Any,
) -> None:
    """Assert that no such job was enqueued. Arguments and errors as for `assert_enqueued`.

    It also fails while a push of this job, with any arguments, waits for the commit of a transaction: the job may still
    be enqueued.
    """
    __tracebackhide__ = True
    recorder = current_recorder("assert_not_enqueued")
    recorder.assert_not_enqueued(job, *args, queue=queue, at=at, in_=in_, **kwargs)
