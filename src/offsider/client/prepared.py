"""The interface of declared jobs that clients use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from offsider.config.config import Config
from offsider.config.routing import Routable


class DeclaredJob(Routable, Protocol):
    """The interface of a job declared in Python. The layer of declarations is above the client.

    Attributes:
        wait_replicas: the number of replicas that its pushes wait for.
        after_commit: whether its pushes wait for a commit, or go through the outbox; None for the default.
        big_payload: its payloads may be large.
        shared_with_ruby: Ruby runs it too.
    """

    wait_replicas: int
    after_commit: bool | str | None
    big_payload: bool
    shared_with_ruby: bool

    def stored_options(self, config: Config) -> Mapping[str, Any]:
        """Return its options in stored form. Raises InvalidOptions for options unknown to ``config``."""
        ...

    def origin(self, config: Config) -> Mapping[str, str]:
        """Return the payload keys that identify the program that pushes it."""
        ...

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in stored form: a list, and keyword-only ones by name. Raises InvalidArguments."""
        ...

    def fits(self, fewest: int, most: int) -> bool:
        """Return whether so many positional arguments, without keyword arguments, are stored as they are."""
        ...

    def parameter_name(self, position: int) -> str:
        """Return the name of the parameter at this position."""
        ...


class CallLike(Protocol):
    """The arguments of one job of a bulk push, as ``job.call(...)`` returns them."""

    @property
    def declared(self) -> DeclaredJob: ...

    @property
    def args(self) -> Sequence[Any]: ...

    @property
    def kwargs(self) -> Mapping[str, Any]: ...


def declared_of(job: object) -> DeclaredJob | None:
    """Return the declaration of a job function, a job class, or a declaration itself; None for a name."""
    if isinstance(job, str):
        return None
    declared: Any = getattr(job, "declared", job)
    # Not isinstance: for a Protocol it checks every attribute, which is slow.
    return declared if hasattr(declared, "stored_options") else None
