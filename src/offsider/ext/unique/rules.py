"""Rules of a job's lock: its life, when it is released, and what happens to duplicates.

1. ``unique_for`` and ``unique_until`` work like in Sidekiq Enterprise.
2. ``unique_until`` also takes GitLab's strategies. They do not lock scheduled jobs, unless ``including_scheduled``.
3. ``throttle`` drops pushes for a number of seconds after another one; ``debounce`` delays a job, and another push
   within the delay replaces it.
4. ``unique_for=False``, ``unique_until="none"``, ``throttle=False`` and ``debounce=False`` disable the lock for a push.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from offsider.core.clock import as_seconds
from offsider.core.errors import InvalidArguments
from offsider.core.payload import encode_text
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.config.config import Config

T = TypeVar("T")

UNIQUE_FOR, UNIQUE_UNTIL = "unique_for", "unique_until"
INCLUDING_SCHEDULED, RESCHEDULE_ONCE = "including_scheduled", "reschedule_once"
THROTTLE, DEBOUNCE = "throttle", "debounce"
_EXCLUSIVE = (UNIQUE_FOR, UNIQUE_UNTIL, THROTTLE, DEBOUNCE)
NONE = "none"
#: Whether the lock is released at the start of the job, and whether it covers scheduled jobs by default.
_UNTIL = {
    "success": (False, True),
    "start": (True, True),
    "until_executed": (False, False),
    "until_executing": (True, False),
}
#: Maximum life of a lock, 30 days: the lock of a job that another program deleted ends by itself.
MAX_SECONDS = 30 * 86_400


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """The rule of a job's lock.

    Attributes:
        ttl_seconds: maximum life of the lock, counted from when the job is due.
        at_start: release the lock when the job starts; otherwise when it ends.
        scheduled: lock scheduled jobs too.
        again: run the job once more if duplicates were dropped.
        kind: with ``throttle`` only the TTL releases the lock; with ``debounce`` the lock is the waiting job.
    """

    ttl_seconds: float
    at_start: bool = False
    scheduled: bool = True
    again: bool = False
    kind: Literal["unique", "throttle", "debounce"] = "unique"


def concerns(payload: Mapping[str, Any]) -> bool:
    """Whether a job with these options is locked, if the options are valid."""
    unique_for, until = payload.get(UNIQUE_FOR), payload.get(UNIQUE_UNTIL)
    if unique_for is not False and until != NONE and not (unique_for is None and until is None):
        return True
    return bool(payload.get(THROTTLE) or payload.get(DEBOUNCE))


def rule_of(payload: Mapping[str, Any], default_ttl_seconds: float) -> UniqueRule | None:
    """Return the rule of a job; None if it is not locked.

    Raises:
        ValueError: an option is invalid, or two kinds are given.
    """
    if payload.get(THROTTLE):
        return _paced(payload, "throttle")
    if payload.get(DEBOUNCE):
        return _paced(payload, "debounce")
    options = tuple(map(payload.get, (UNIQUE_FOR, UNIQUE_UNTIL, INCLUDING_SCHEDULED, RESCHEDULE_ONCE)))
    try:
        return _rule(*options, default_ttl_seconds)
    except TypeError:  # an invalid option that cannot be cached, such as a list
        return _rule.__wrapped__(*options, default_ttl_seconds)


def _paced(payload: Mapping[str, Any], kind: Literal["throttle", "debounce"]) -> UniqueRule:
    others = [key for key in _EXCLUSIVE if key != kind and payload.get(key) not in (None, False, NONE)]
    if others:
        raise ValueError(f"{kind} and {others[0]} exclude each other; use one of them")
    return UniqueRule(as_seconds(payload[kind], kind, at_most=MAX_SECONDS), kind=kind)


@lru_cache(256, typed=True)  # every push of a job has the same options
def _rule(
    unique_for: object, until: object, including_scheduled: object, again: object, default_ttl_seconds: float
) -> UniqueRule | None:
    check_unique_until(until)
    if unique_for is False or until == NONE or (unique_for is None and until is None):
        return None
    at_start, scheduled = _UNTIL[cast(str, until or "success")]
    for option, value in ((INCLUDING_SCHEDULED, including_scheduled), (RESCHEDULE_ONCE, again)):
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{option} must be True or False, got {value!r}")
    if again and at_start:
        raise ValueError(f'{RESCHEDULE_ONCE} needs a lock until the end: {UNIQUE_UNTIL}="success" or "until_executed"')
    ttl_seconds = default_ttl_seconds
    if unique_for is not None:
        ttl_seconds = as_seconds(unique_for, UNIQUE_FOR, at_most=MAX_SECONDS)
    scheduled = scheduled if including_scheduled is None else bool(including_scheduled)
    return UniqueRule(ttl_seconds, at_start=at_start, scheduled=scheduled, again=bool(again))


def check_seconds(value: object) -> None:
    """Raise ValueError unless the value is a duration or False."""
    if value is not False:
        as_seconds(value, "the duration", at_most=MAX_SECONDS)


def check_unique_until(value: object) -> None:
    """Raise ValueError unless the value is None or says when a lock ends."""
    if value is not None and (not isinstance(value, str) or value not in {*_UNTIL, NONE}):
        raise ValueError(f"{UNIQUE_UNTIL} must be one of {', '.join((*_UNTIL, NONE))}, got {value!r}")


def check_switch(value: object) -> None:
    """Raise ValueError unless the value is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, got {value!r}")  # noqa: TRY004  # as all checks


def store_durations(payload: dict[str, Any]) -> None:
    """Replace timedeltas by numbers, because JSON has no timedelta."""
    for key in (UNIQUE_FOR, THROTTLE, DEBOUNCE):
        duration: object = payload.get(key)
        if isinstance(duration, timedelta):
            whole = duration.total_seconds()
            payload[key] = int(whole) if whole.is_integer() else whole


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


def lock_name(payload: Mapping[str, Any], config: Config, *, across_queues: bool, any_arguments: bool = False) -> str:
    """Return the SHA-256 digest, in hex, of queue, class and arguments, or of the value of `unique_by`.

    Args:
        config: has the key for the digest of an encrypted job.
        across_queues: leave out the queue.
        any_arguments: leave out the arguments, but not the value of `unique_by`.

    Raises:
        InvalidArguments: the arguments are not valid JSON.
    """
    name: str = payload["class"]
    queue = "" if across_queues else payload.get("queue", "default")
    subject = "" if any_arguments and _function_of(name) is None else _subject(name, payload)
    text = f"{queue}\n{name}\n{subject}"
    if payload.get("encrypt") and config.encryption is not None:
        return config.encryption.digest(text)
    return hashlib.sha256(text.encode()).hexdigest()


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
