"""Messages of failed assertions: the expected job, the enqueued jobs, and the closest match."""

from __future__ import annotations

from collections.abc import Sequence

from offsider.config import test_mode
from offsider.core.suggestions import nearest
from offsider.core.wording import counted
from offsider.testing.enqueued_job import EnqueuedJob
from offsider.testing.expectation import Expectation

MOST_SHOWN = 20


def not_enough(expected: Expectation, jobs: Sequence[EnqueuedJob], wanted: int | None, already_run: int) -> str:
    """Return the message for fewer (or, with ``wanted``, more) jobs than expected."""
    found = sum(map(expected.matches, jobs))
    if wanted is None:
        first = f"not enqueued: {expected}"
    else:
        first = f"expected {counted(wanted, 'job')}, found {found}: {expected}"
    lines = [first, *_listed(jobs), *_run(already_run), *waiting()]
    if not found:
        lines += _nearest(expected, jobs)
    return "\n".join(lines)


def unexpected(expected: Expectation, jobs: Sequence[EnqueuedJob]) -> str:
    """Return the message for an unexpected job."""
    found = counted(sum(map(expected.matches, jobs)), "time")
    return "\n".join([f"enqueued {found}, and should not be: {expected}", *_listed(jobs)])


def _listed(jobs: Sequence[EnqueuedJob]) -> list[str]:
    if not jobs:
        return ["Nothing is enqueued."]
    lines = [f"Enqueued, oldest first ({counted(len(jobs), 'job')}):"]
    lines += [f"  {number}. {job}" for number, job in enumerate(jobs[:MOST_SHOWN], 1)]
    if len(jobs) > MOST_SHOWN:
        lines.append(f"  ... and {len(jobs) - MOST_SHOWN} more")
    return lines


def _run(already_run: int) -> list[str]:
    if not already_run:
        return []
    return [f"{counted(already_run, 'job')} ran already and {'is' if already_run == 1 else 'are'} not counted."]


def waiting() -> list[str]:
    """Return a line about pushes that wait for a commit, if there are any."""
    number = sum(len(each.jids) for each in test_mode.waiting)
    if not number:
        return []
    verb = "waits" if number == 1 else "wait"
    advice = "In a TestCase of Django, which never commits, use `with self.captureOnCommitCallbacks(execute=True):`"
    return [f"{counted(number, 'push')} {verb} for the commit of a transaction. {advice}."]


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
