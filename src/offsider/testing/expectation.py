"""The expectation of a test about an enqueued job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from offsider.client.times import When, due_at
from offsider.core.options import wire_options
from offsider.jobs.call import Call, Delay
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer, Moment
from offsider.testing import difference, wording
from offsider.testing.enqueued_job import AnyJob, EnqueuedJob, declared_behind, name_of

TOLERANCE_SECONDS = 1.0  # between the clock readings of the test and of the application


@dataclass(frozen=True)
class Expectation:
    """A job as a test describes it; None or empty matches anything.

    Attributes:
        name: stored name.
        declared: declaration, for the parameter names in differences.
        args: positional arguments, as stored.
        kwargs: keyword-only arguments, as stored.
        options: values by payload key.
        at: epoch seconds at which it is due.
        delay_seconds: seconds from the push until it is due.
    """

    name: str
    declared: Declared | None
    args: list[Any] | None
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at: float | None = None
    delay_seconds: float | None = None

    def matches(self, job: EnqueuedJob) -> bool:
        return job.name == self.name and not any(self.differences(job))

    def differences(self, job: EnqueuedJob) -> Iterator[str]:
        """Yield the differences between a job of this name and the expectation."""
        if self.args is not None:
            yield from difference.of_arguments(self.args, job.args, self._parameter_names())
            yield from difference.of_keywords(self.kwargs, job.kwargs)
        for key, expected in self.options.items():
            actual = job.queue if key == "queue" else job.payload.get(key)
            yield from difference.differences(expected, actual, key)
        yield from self._differences_of_time(job)

    def _differences_of_time(self, job: EnqueuedJob) -> Iterator[str]:
        if self.at is not None and abs((job.at or 0.0) - self.at) > TOLERANCE_SECONDS:
            actual = "at once" if job.at is None else wording.moment(job.at)
            yield f"it is due {actual}, not {wording.moment(self.at)}"
        if self.delay_seconds is not None and abs(job.delay_seconds - self.delay_seconds) > TOLERANCE_SECONDS:
            actual = "at once" if job.at is None else wording.delay(job.delay_seconds)
            yield f"it is due {actual}, not {wording.delay(self.delay_seconds)}"

    def _parameter_names(self) -> Iterator[str]:
        if self.declared is None:
            return (f"args[{position}]" for position in count())
        return map(self.declared.parameter_name, count())

    def __str__(self) -> str:
        words = [f"{self.name}(...)" if self.args is None else wording.call(self.name, self.args, self.kwargs)]
        words += [f"with {key} {wording.value(expected)}" for key, expected in self.options.items()]
        if self.at is not None:
            words.append(f"due {wording.moment(self.at)}")
        if self.delay_seconds is not None:
            words.append(f"due {wording.delay(self.delay_seconds)}")
        return ", ".join(words)


def expect(
    job: AnyJob | Call[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    queue: str | None = None,
    at: Moment | None = None,
    in_: Delay | None = None,
) -> Expectation:
    """Return the expectation for the arguments of ``assert_enqueued``.

    Raises:
        InvalidArguments: the job cannot be called with these arguments, so the test is wrong.
        InvalidOptions: a naive datetime or a negative delay.
    """
    declared = declared_behind(job)
    if isinstance(job, Call):
        if args or kwargs:
            raise TypeError(f"the arguments are in the call already: {job.args} {job.kwargs}")
        args, kwargs = job.args, job.kwargs
    options = wire_options(job.options) if isinstance(job, Enqueuer) else {}
    if queue is not None:
        options["queue"] = queue
    stored_args, stored_kwargs = _stored(job, declared, args, kwargs)
    return Expectation(name_of(job), declared, stored_args, stored_kwargs, options, _seconds(at), _seconds(in_))


def _stored(
    job: AnyJob | Call[..., Any], declared: Declared | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any] | None, Mapping[str, Any]]:
    """Return the arguments as a payload stores them; None if none were given, which matches all."""
    if not (args or kwargs or isinstance(job, Call)):
        return None, {}
    return (list(args), kwargs) if declared is None else declared.bind(args, kwargs)


def _seconds(when: When | None) -> float | None:
    # With a current time of 0, delays stay delays and datetimes become epoch seconds.
    return None if when is None else due_at(when, 0.0) or 0.0
