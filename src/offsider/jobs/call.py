"""The arguments of one job, for a bulk push or a workflow, and their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar

from offsider.core.job_id import JobId
from offsider.jobs.declared import Declared

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)

Delay = float | timedelta
Due = Delay | datetime | Sequence[Delay | datetime]
Jids = list[JobId[Any] | None]
#: A tuple for more parameters than type checkers check.
Long = tuple[Any, Any, Any, Any, Any, *tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Call(Generic[P, R_co]):
    """The result of ``some_job.call(...)``: an element for ``some_job.enqueue_many(...)``, or a step of a workflow.

    Attributes:
        options: those of ``using``, for a step; a bulk push has its own.
    """

    declared: Declared
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


# The types of tuples in a bulk push: a job that can be called with one, two, three or four positional arguments. A
# TypeVarTuple would be shorter, but mypy refuses jobs with defaults and optional keywords then.


class Takes1(Protocol[A_contra]):
    """A job that can be called with one positional argument."""

    def call(self, a: A_contra, /) -> Any: ...


class Takes2(Protocol[A_contra, B_contra]):
    """A job that can be called with two positional arguments."""

    def call(self, a: A_contra, b: B_contra, /) -> Any: ...


class Takes3(Protocol[A_contra, B_contra, C_contra]):
    """A job that can be called with three positional arguments."""

    def call(self, a: A_contra, b: B_contra, c: C_contra, /) -> Any: ...


class Takes4(Protocol[A_contra, B_contra, C_contra, D_contra]):
    """A job that can be called with four positional arguments."""

    def call(self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, /) -> Any: ...


class Performs1(Protocol[A_contra]):
    """The same for a job class."""

    def perform(self, a: A_contra, /) -> Any: ...


class Performs2(Protocol[A_contra, B_contra]):
    """The same for a job class."""

    def perform(self, a: A_contra, b: B_contra, /) -> Any: ...


class Performs3(Protocol[A_contra, B_contra, C_contra]):
    """The same for a job class."""

    def perform(self, a: A_contra, b: B_contra, c: C_contra, /) -> Any: ...


class Performs4(Protocol[A_contra, B_contra, C_contra, D_contra]):
    """The same for a job class."""

    def perform(self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, /) -> Any: ...


class BulkOptions(TypedDict, total=False):
    """Keyword arguments of a bulk push; `Enqueuer.enqueue_many` describes them."""

    at: Due | None
    spread_interval: float | timedelta | None
    batch_size: int | None
