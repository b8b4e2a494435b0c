"""The arguments of one job, for a bulk push or a workflow, and their types."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import (
    Any,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from offsider.core.job_id import JobId
from offsider.jobs.declared import Declared

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
F_co = TypeVar("F_co", covariant=True)
G_co = TypeVar("G_co", covariant=True)
Ts = TypeVarTuple("Ts")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")

Delay = float | timedelta
Due = Delay | datetime | Sequence[Delay | datetime]
Jids: TypeAlias = list[JobId[R] | None]
AsyncJids: TypeAlias = Coroutine[Any, Any, Jids[R]]
#: A tuple for more parameters than `BulkPush` has.
Long = tuple[Any, Any, Any, Any, Any, Any, Any, Any, Any, *tuple[Any, ...]]


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


class BulkOptions(TypedDict, total=False):
    """Keyword arguments of a bulk push; `Enqueuer.enqueue_many` describes them."""

    at: Due | None
    spread_interval: float | timedelta | None
    batch_size: int | None


class Performs(Protocol[P, R_co]):
    """A class with ``perform``, whose signature types ``enqueue`` and the other methods."""

    def perform(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class BulkPush(Protocol[P, F_co, G_co, R_co]):
    """The type of ``enqueue_many``: it accepts tuples with which the job can be called.

    F and G are the job as a function, twice: it must accept the shortest and the longest tuple. A TypeVarTuple alone
    would do for pyright, but mypy refuses jobs with defaults and optional keywords then.
    """

    @overload
    def __call__(
        self: BulkPush[P, Callable[[A], R], Any, R], calls: Iterable[tuple[A]], **how: Unpack[BulkOptions]
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B], R], Any, R], calls: Iterable[tuple[A, B]], **how: Unpack[BulkOptions]
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B, C], R], Any, R], calls: Iterable[tuple[A, B, C]], **how: Unpack[BulkOptions]
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B, C, D], R], Any, R],
        calls: Iterable[tuple[A, B, C, D]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B, C, D, E], R], Any, R],
        calls: Iterable[tuple[A, B, C, D, E]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B, C, D, E, F], R], Any, R],
        calls: Iterable[tuple[A, B, C, D, E, F]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B, C, D, E, F, G], R], Any, R],
        calls: Iterable[tuple[A, B, C, D, E, F, G]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B, C, D, E, F, G, H], R], Any, R],
        calls: Iterable[tuple[A, B, C, D, E, F, G, H]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[*Ts], R], Any, R], calls: Iterable[tuple[*Ts]], **how: Unpack[BulkOptions]
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[], R], Callable[[A], R], R],
        calls: Iterable[tuple[()] | tuple[A]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[], R], Callable[[A, B], R], R],
        calls: Iterable[tuple[()] | tuple[A] | tuple[A, B]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A], R], Callable[[A, B], R], R],
        calls: Iterable[tuple[A] | tuple[A, B]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[], R], Callable[[A, B, C], R], R],
        calls: Iterable[tuple[()] | tuple[A] | tuple[A, B] | tuple[A, B, C]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A], R], Callable[[A, B, C], R], R],
        calls: Iterable[tuple[A] | tuple[A, B] | tuple[A, B, C]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B], R], Callable[[A, B, C], R], R],
        calls: Iterable[tuple[A, B] | tuple[A, B, C]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[], R], Callable[[A, B, C, D], R], R],
        calls: Iterable[tuple[()] | tuple[A] | tuple[A, B] | tuple[A, B, C] | tuple[A, B, C, D]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A], R], Callable[[A, B, C, D], R], R],
        calls: Iterable[tuple[A] | tuple[A, B] | tuple[A, B, C] | tuple[A, B, C, D]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B], R], Callable[[A, B, C, D], R], R],
        calls: Iterable[tuple[A, B] | tuple[A, B, C] | tuple[A, B, C, D]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(
        self: BulkPush[P, Callable[[A, B, C], R], Callable[[A, B, C, D], R], R],
        calls: Iterable[tuple[A, B, C] | tuple[A, B, C, D]],
        **how: Unpack[BulkOptions],
    ) -> R: ...
    @overload
    def __call__(self, calls: Iterable[Call[P, Any] | list[Any] | Long], **how: Unpack[BulkOptions]) -> R_co: ...
