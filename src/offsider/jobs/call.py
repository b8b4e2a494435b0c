"""The arguments of one job of a bulk push."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, ParamSpec

from offsider.jobs.declared import Declared

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Call(Generic[P]):
    """The result of ``some_job.call(...)``: one element for ``some_job.enqueue_many(...)``."""

    declared: Declared
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
