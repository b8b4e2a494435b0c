"""The expectation of a test about an enqueued job, its differences from a job, and messages of failed assertions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, zip_longest
from typing import Any, cast

from offsider.client.alike import Pushes, templates
from offsider.client.times import When, due_at
from offsider.config import test_mode
from offsider.core.options import wire_options
from offsider.core.suggestions import nearest
from offsider.core.wording import counted
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Delay, Enqueuer, JobCall, Moment
from offsider.testing.enqueued_job import (
    AnyJob,
    EnqueuedJob,
    declared_behind,
    name_of,
    shown_call,
    shown_delay,
    shown_moment,
    shown_value,
)

_ABSENT = object()


def differences(expected: Any, actual: Any, path: str) -> Iterator[str]:
    """Yield every difference by its path: ``options['size'] is 1, not 2``; also inside lists and dicts.

    A tuple equals the list that JSON makes of it. Values are compared with ``==``, the expected one on the left, so
    ``unittest.mock.ANY`` works anywhere.
    """
    if expected is _ABSENT:
        yield f"{path} is {shown_value(actual)}, but nothing was expected there"
    elif actual is _ABSENT:
        yield f"{path} is missing, not {shown_value(expected)}"
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        keys = cast(Mapping[str, Any], expected), cast(Mapping[str, Any], actual)
        yield from of_keywords(*keys, lambda key: f"{path}[{key!r}]")
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        items = cast(Sequence[Any], expected), cast(Sequence[Any], actual)
        yield from of_arguments(*items, (f"{path}[{index}]" for index in count()))
    elif not _equal(cast(object, expected), cast(object, actual)):
        yield f"{path} is {shown_value(cast(object, actual))}, not {shown_value(cast(object, expected))}"


def of_arguments(expected: Sequence[Any], actual: Sequence[Any], names: Iterable[str]) -> Iterator[str]:
    """Yield the differences of lists whose elements have names."""
    for (left, right), name in zip(zip_longest(expected, actual, fillvalue=_ABSENT), names, strict=False):
        yield from differences(left, right, name)


def of_keywords(
    expected: Mapping[str, Any], actual: Mapping[str, Any], path: Callable[[str], str] = str
) -> Iterator[str]:
    """Yield the differences of dicts; ``path`` returns the path of a key."""
    for key in {**expected, **actual}:
        yield from differences(expected.get(key, _ABSENT), actual.get(key, _ABSENT), path(key))


def _equal(expected: object, actual: object) -> bool:
    # JSON distinguishes true from 1, Python does not.
    if isinstance(expected, bool) != isinstance(actual, bool) and isinstance(expected, bool | int | float):
        return False
    return bool(expected == actual)


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
            yield from of_arguments(self.args, job.args, self._parameter_names())
            yield from of_keywords(self.kwargs, job.kwargs)
        for key, expected in self.options.items():
            actual = job.queue if key == "queue" else job.payload.get(key)
            yield from differences(expected, actual, key)
        yield from self._differences_of_time(job)

    def _differences_of_time(self, job: EnqueuedJob) -> Iterator[str]:
        if self.at is not None and abs((job.at or 0.0) - self.at) > TOLERANCE_SECONDS:
            actual = "at once" if job.at is None else shown_moment(job.at)
            yield f"it is due {actual}, not {shown_moment(self.at)}"
        if self.delay_seconds is not None and abs(job.delay_seconds - self.delay_seconds) > TOLERANCE_SECONDS:
            actual = "at once" if job.at is None else shown_delay(job.delay_seconds)
            yield f"it is due {actual}, not {shown_delay(self.delay_seconds)}"

    def _parameter_names(self) -> Iterator[str]:
        if self.declared is None:
            return (f"args[{position}]" for position in count())
        return map(self.declared.parameter_name, count())

    def __str__(self) -> str:
        words = [f"{self.name}(...)" if self.args is None else shown_call(self.name, self.args, self.kwargs)]
        words += [f"with {key} {shown_value(expected)}" for key, expected in self.options.items()]
        if self.at is not None:
            words.append(f"due {shown_moment(self.at)}")
        if self.delay_seconds is not None:
            words.append(f"due {shown_delay(self.delay_seconds)}")
        return ", ".join(words)


def expect(
    job: AnyJob | JobCall[..., Any],
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
    if isinstance(job, JobCall):
        if args or kwargs:
            raise TypeError(f"the arguments are in the call already: {job.args} {job.kwargs}")
        args, kwargs = job.args, job.kwargs
    options = wire_options(job.options) if isinstance(job, Enqueuer) else {}
    if queue is not None:
        options["queue"] = queue
    stored_args, stored_kwargs = _stored(job, declared, args, kwargs)
    return Expectation(name_of(job), declared, stored_args, stored_kwargs, options, _seconds(at), _seconds(in_))


def _stored(
    job: AnyJob | JobCall[..., Any], declared: Declared | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any] | None, Mapping[str, Any]]:
    """Return the arguments as a payload stores them; None if none were given, which matches all."""
    if not (args or kwargs or isinstance(job, JobCall)):
        return None, {}
    return (list(args), kwargs) if declared is None else declared.bind(args, kwargs)


def _seconds(when: When | None) -> float | None:
    # With a current time of 0, delays stay delays and datetimes become epoch seconds.
    return None if when is None else due_at(when, 0.0) or 0.0


MAX_SHOWN = 20


def not_enough(expected: Expectation, jobs: Sequence[EnqueuedJob], wanted: int | None, already_run: int) -> str:
    """Return the message for fewer (or, with ``wanted``, more) jobs than expected."""
    found = sum(map(expected.matches, jobs))
    if wanted is None:
        first = f"not enqueued: {expected}"
    else:
        first = f"expected {counted(wanted, 'job')}, found {found}: {expected}"
    lines = [first, *_listed(jobs), *_run(already_run), *waiting()]
    if test_mode.followers:
        lines.append("A step of a workflow is pushed when the steps before it have run: call drain() first.")
    if not found:
        lines += _nearest(expected, jobs)
    return "\n".join(lines)


def unexpected(expected: Expectation, jobs: Sequence[EnqueuedJob]) -> str:
    """Return the message for an unexpected job."""
    found = counted(sum(map(expected.matches, jobs)), "time")
    return "\n".join([f"expected no such job, but it was enqueued {found}: {expected}", *_listed(jobs)])


def undecided(expected: Expectation) -> str | None:
    """Return the message that pushes of this job still wait for a commit; None if none do."""
    lines = waiting(expected.name)
    if not lines:
        return None
    return "\n".join([f"a push of {expected.name} waits, so this cannot be asserted yet: not {expected}", *lines])


def _listed(jobs: Sequence[EnqueuedJob]) -> list[str]:
    if not jobs:
        return ["Nothing is enqueued."]
    lines = [f"Enqueued, oldest first ({counted(len(jobs), 'job')}):"]
    lines += [f"  {number}. {job}" for number, job in enumerate(jobs[:MAX_SHOWN], 1)]
    if len(jobs) > MAX_SHOWN:
        lines.append(f"  ... and {len(jobs) - MAX_SHOWN} more")
    return lines


def _run(already_run: int) -> list[str]:
    if not already_run:
        return []
    return [f"{counted(already_run, 'job')} ran already and {'is' if already_run == 1 else 'are'} not counted."]


def waiting(name: str | None = None) -> list[str]:
    """Return a line about pushes (of one job) that wait for a commit, if there are any."""
    number = sum(len(each.jids) for each in test_mode.waiting if name in (None, *_names(each.pushes)))
    if not number:
        return []
    verb = "waits" if number == 1 else "wait"
    databases = sorted({database for left in list(test_mode.databases.values()) for database in left})
    if not databases:  # of another framework
        return [f"{counted(number, 'push')} {verb} for the commit of a transaction: commit it before this assertion."]
    using = ("" if database == "default" else f'using="{database}", ' for database in databases)
    blocks = ", ".join(f"self.captureOnCommitCallbacks({each}execute=True)" for each in using)
    text = (
        f"{counted(number, 'push')} {verb} for the commit of a transaction of database {' and '.join(databases)}. "
        f"A TestCase of Django never commits: push inside of `with {blocks}:`, and assert after that block. "
        "It captures nothing in an `async def` test: make that a plain test, and call async code with `async_to_sync`."
    )
    return [text]


def _names(pushes: Pushes) -> set[str]:
    return {push.payload["class"] for push in templates(pushes)}


def _nearest(expected: Expectation, jobs: Sequence[EnqueuedJob]) -> list[str]:
    """Return the job of this name with the fewest differences, and the differences."""
    candidates = [
        (list(expected.differences(job)), number) for number, job in enumerate(jobs, 1) if job.name == expected.name
    ]
    if candidates:
        differences, number = min(candidates, key=lambda candidate: len(candidate[0]))
        return [f"Nearest is {number}: {'; '.join(differences)}."]
    similar = nearest(expected.name, {job.name for job in jobs})
    if similar is None:
        return []
    return [f"No job of that name is enqueued; one called {similar} is."]
