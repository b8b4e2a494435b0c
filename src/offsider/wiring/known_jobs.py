"""The declared jobs, for those who stand below their registry and look at stored ones.

The registry makes itself known here when it is imported; without it no job is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from offsider.wiring.routing import Routable

Find: TypeAlias = Callable[[str], Routable | None]
Every: TypeAlias = Callable[[], Sequence[Routable]]


_find: Find = dict[str, Routable]().get
_every: Every = tuple


def found_by(find: Find) -> None:
    """Ask ``find`` from now on."""
    global _find  # noqa: PLW0603  # there is one registry in a process
    _find = find


def known_job(name: str) -> Routable | None:
    """The job that is stored under this name or alias; None when it is not declared here."""
    return _find(name)


def listed_by(every: Every) -> None:
    """Ask ``every`` for all of them from now on."""
    global _every  # noqa: PLW0603  # see above
    _every = every


def known_jobs() -> Sequence[Routable]:
    """Every job that is declared here."""
    return _every()
