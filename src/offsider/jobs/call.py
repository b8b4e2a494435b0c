"""The arguments of one job, for a bulk push or a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar

from offsider.jobs.declared import Declared

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

Delay = float | timedelta
Due = Delay | datetime | Sequence[Delay | datetime]


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
