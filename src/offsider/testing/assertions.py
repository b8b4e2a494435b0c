"""Assertions about the jobs of the active `fake` mode."""

from __future__ import annotations

from typing import Any

from offsider.jobs.call import Call, Delay
from offsider.jobs.enqueuer import Moment
from offsider.testing.enqueued_job import AnyJob, EnqueuedJob
from offsider.testing.modes import current_recorder


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
        job: a job function or class, also after ``.using(...)``; ``job.call(...)``; or the name of a job that is
            declared elsewhere.
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
    """Assert that no such job was enqueued. Arguments and errors as for `assert_enqueued`."""
    __tracebackhide__ = True
    recorder = current_recorder("assert_not_enqueued")
    recorder.assert_not_enqueued(job, *args, queue=queue, at=at, in_=in_, **kwargs)
