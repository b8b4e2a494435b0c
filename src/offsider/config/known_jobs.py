"""The declared jobs, for modules in lower layers that cannot import the job registry.

The registry sets its lookup functions here when it is imported. Before that, no job is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from offsider.config.routing import Routable

Find: TypeAlias = Callable[[str], Routable | None]
Every: TypeAlias = Callable[[], Sequence[Routable]]


_find: Find = dict[str, Routable]().get
_every: Every = tuple


def found_by(find: Find) -> None:
    """Set the function that finds a job by its name."""
    global _find  # noqa: PLW0603  # a process has one registry
    _find = find


def known_job(name: str) -> Routable | None:
    """Return the job with this stored name or alias; None if it is not declared in this process."""
    return _find(name)


def listed_by(every: Every) -> None:
    """Set the function that lists all jobs."""
    global _every  # noqa: PLW0603  # see above
    _every = every


def known_jobs() -> Sequence[Routable]:
    """Return every job that is declared in this process."""
    return _every()
