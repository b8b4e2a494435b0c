"""Names of locks: a digest of the class, arguments and queue of a job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from offsider.core.errors import InvalidArguments
from offsider.core.payload import encode_text
from offsider.jobs import registry

T = TypeVar("T")

_ATTRIBUTE = "__offsider_unique_by__"
_SCALARS = frozenset({str, int, bool, type(None), float})
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def unique_by(function: Callable[..., object]) -> Callable[[T], T]:
    """Choose which arguments make a job a duplicate of another one.

    ::

        @job(unique_for=600)
        @unique_by(lambda account_id, reason="": account_id)
        def refresh(account_id: int, reason: str = "") -> None: ...

    Args:
        function: gets the stored arguments of a push and returns a JSON value. On a job class, make the decorator
            the outermost one.
    """

    def mark(target: T) -> T:
        setattr(target, _ATTRIBUTE, staticmethod(function) if isinstance(target, type) else function)
        return target

    return mark


def lock_name(payload: Mapping[str, Any], *, across_queues: bool, any_arguments: bool = False) -> str:
    """Return the SHA-256 digest, in hex, of queue, class and arguments, or of the value of `unique_by`.

    Args:
        across_queues: leave out the queue.
        any_arguments: leave out the arguments, but not the value of `unique_by`.

    Raises:
        InvalidArguments: the arguments are not valid JSON.
    """
    name: str = payload["class"]
    queue = "" if across_queues else payload.get("queue", "default")
    subject = "" if any_arguments and _function_of(name) is None else _subject(name, payload)
    return hashlib.sha256(f"{queue}\n{name}\n{subject}".encode()).hexdigest()


def _subject(name: str, payload: Mapping[str, Any]) -> str:
    args: list[Any] = payload["args"]
    kwargs: dict[str, Any] = payload.get("kwargs") or {}
    try:
        function = _function_of(name)
        if function is not None:
            return _ENCODER.encode(function(*args, **kwargs))
        if kwargs:
            return _ENCODER.encode({"args": args, "kwargs": kwargs})
        return encode_text(args) if _SCALARS.issuperset(map(type, args)) else _ENCODER.encode(args)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"{name}: cannot name the lock, arguments are not JSON: {error}") from error


def _function_of(name: str) -> Callable[..., object] | None:
    declared = registry.peek(name)  # None for a job of another program
    return (
        None if declared is None else cast("Callable[..., object] | None", getattr(declared.target, _ATTRIBUTE, None))
    )
