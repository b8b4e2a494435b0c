"""Middleware for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsider import Middleware


def returning(value: Any = None) -> Callable[[Any], Middleware]:
    """Middleware that returns before its yield: the push is canceled, or the job does not run."""

    def middleware(_subject: Any) -> Middleware:
        yield from ()
        return value

    return middleware


def raising(error: BaseException) -> Callable[[Any], Middleware]:
    """Middleware that raises before its yield."""

    def middleware(_subject: Any) -> Middleware:
        yield from ()
        raise error

    return middleware
