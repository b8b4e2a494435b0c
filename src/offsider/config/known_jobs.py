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


def provided_by(find: Find, every: Every) -> None:
    """Set the functions that find a job by its name and list all jobs."""
    global _find, _every  # a process has one registry
    _find, _every = find, every


def known_job(name: str) -> Routable | None:
    """Return the job with this stored name or alias; None if it is not declared in this process."""
    return _find(name)


def known_jobs() -> Sequence[Routable]:
    """Return every job that is declared in this process."""
    return _every()
