"""Rules of a job's lock: its life, when it is freed, and what happens to duplicates.

1. ``unique_for`` and ``unique_until`` work like in Sidekiq Enterprise.
2. ``deduplicate`` has the strategies and options of GitLab's middleware.
3. ``throttle`` drops pushes for a number of seconds after another one; ``debounce`` delays a job, and another push
   within the delay replaces it.
4. ``unique_for=False``, or the strategy ``"none"``, disables either for a push; so do ``throttle=False`` and
   ``debounce=False``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal, TypedDict, TypeVar, cast

from offsider.core.errors import InvalidArguments, InvalidOptions
from offsider.core.payload import encode_text
from offsider.core.wording import shown
from offsider.jobs import registry

UNIQUE_FOR, UNIQUE_UNTIL, DEDUPLICATE = "unique_for", "unique_until", "deduplicate"
THROTTLE, DEBOUNCE = "throttle", "debounce"
_EXCLUSIVE = (UNIQUE_FOR, DEDUPLICATE, THROTTLE, DEBOUNCE)
UNTIL = ("success", "start")
STRATEGIES = ("until_executing", "until_executed", "none")
RESCHEDULE_ONCE = "reschedule_once"
_MOST_SECONDS = 1e9


class Deduplication(TypedDict, total=False):
    """The option ``deduplicate`` as a mapping. For a strategy without further options, pass its name."""

    strategy: Literal["until_executing", "until_executed", "none"]
    """Free the lock when the job starts, or when it ends. Required."""
    ttl: float | timedelta
    """Maximum life of the lock. Default: the ``ttl`` of the extension, ten minutes."""
    including_scheduled: bool
    """Lock scheduled jobs too, from the push on. Default: False."""
    if_deduplicated: Literal["reschedule_once"]
    """Run the job once more if duplicates were dropped before it ended; only with ``until_executed``."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of a job's lock.

    Attributes:
        ttl_seconds: maximum life of the lock, counted from when the job is due.
        at_start: free the lock when the job starts; otherwise when it ends.
        scheduled: lock scheduled jobs too.
        again: run the job once more if duplicates were dropped.
        kind: with ``throttle`` only the TTL frees the lock; with ``debounce`` the lock is the waiting job.
    """

    ttl_seconds: float
    at_start: bool = False
    scheduled: bool = True
    again: bool = False
    kind: Literal["unique", "throttle", "debounce"] = "unique"


def concerns(payload: Mapping[str, Any]) -> bool:
    """Whether a job with these options is locked, if the options are valid."""
    unique_for = payload.get(UNIQUE_FOR)
    if unique_for is not None:
        return unique_for is not False
    return payload.get(DEDUPLICATE) not in (None, "none") or bool(payload.get(THROTTLE) or payload.get(DEBOUNCE))


def rule_of(payload: Mapping[str, Any], default_ttl_seconds: float) -> Rule | None:
    """Return the rule of a job; None if it is not locked.

    Raises:
        ValueError: an option is invalid, or both kinds are given.
    """
    if payload.get(THROTTLE):
        return _paced(payload, "throttle")
    if payload.get(DEBOUNCE):
        return _paced(payload, "debounce")
    unique_for, unique_until, deduplicate = payload.get(UNIQUE_FOR), payload.get(UNIQUE_UNTIL), payload.get(DEDUPLICATE)
    try:
        return _known(unique_for, unique_until, deduplicate, default_ttl_seconds)
    except TypeError:  # a mapping
        return _rule(unique_for, unique_until, deduplicate, default_ttl_seconds)


def _paced(payload: Mapping[str, Any], kind: Literal["throttle", "debounce"]) -> Rule:
    others = [key for key in _EXCLUSIVE if key != kind and payload.get(key) not in (None, False, "none")]
    if others:
        raise ValueError(f"{kind} and {others[0]} exclude each other; use one of them")
    try:
        return Rule(seconds(payload[kind]), kind=kind)
    except ValueError as error:
        raise ValueError(f"{kind} {error}") from None


def _rule(unique_for: object, unique_until: object, deduplicate: object, default_ttl_seconds: float) -> Rule | None:
    if unique_for is False:
        return None
    if unique_for is not None:
        if deduplicate not in (None, "none"):
            raise ValueError(f"{UNIQUE_FOR} and {DEDUPLICATE} exclude each other; use one of them")
        return Rule(seconds(unique_for), at_start=_until(unique_until) == "start")
    return None if deduplicate is None else _deduplication(deduplicate, default_ttl_seconds)


#: Every push of a job has the same options.
_known = lru_cache(256, typed=True)(_rule)


def seconds(value: object) -> float:
    """Return a duration in seconds. Raises ValueError."""
    given = value.total_seconds() if isinstance(value, timedelta) else value
    fits = isinstance(given, int | float) and not isinstance(given, bool)
    if not fits or not 0 < cast(float, given) <= _MOST_SECONDS:
        raise ValueError(f"expects a positive number of seconds (up to 1e9) or a timedelta, got {shown(value)}")
    return cast(float, given)


def check_seconds(value: object) -> None:
    """Raise ValueError unless the value is a duration or False."""
    if value is not False:
        seconds(value)


def check_unique_until(value: object) -> None:
    _until(value)


def check_deduplicate(value: object) -> None:
    _deduplication(value, 1.0)


def store_durations(payload: dict[str, Any]) -> None:
    """Replace timedeltas by numbers, because JSON has no timedelta."""
    for key in (UNIQUE_FOR, THROTTLE, DEBOUNCE):
        duration: object = payload.get(key)
        if isinstance(duration, timedelta):
            payload[key] = _number(duration)
    deduplicate: object = payload.get(DEDUPLICATE)
    if deduplicate is not None and isinstance(deduplicate, Mapping):
        options = cast("Mapping[str, object]", deduplicate)
        ttl = options.get("ttl")
        if isinstance(ttl, timedelta):
            payload[DEDUPLICATE] = {**options, "ttl": _number(ttl)}


def invalid(name: str, error: ValueError) -> InvalidOptions:
    """Return the error for a job with invalid options."""
    return InvalidOptions(f"{name}: {error}")


def _number(duration: timedelta) -> float:
    whole = duration.total_seconds()
    return int(whole) if whole.is_integer() else whole


def _until(value: object) -> str:
    if value is None:
        return "success"
    if value not in UNTIL:
        raise ValueError(f'{UNIQUE_UNTIL} must be "success" or "start", got {value!r}')
    return str(value)


def _deduplication(value: object, default_ttl_seconds: float) -> Rule | None:
    given = {"strategy": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise ValueError(f"{DEDUPLICATE} expects a strategy or a mapping with one, got {value!r}")  # noqa: TRY004  # as all
    options = cast("Mapping[str, Any]", given)
    unknown = set(options) - set(Deduplication.__annotations__)
    if unknown:
        raise ValueError(f"{DEDUPLICATE} has no {sorted(map(str, unknown))}, only {[*Deduplication.__annotations__]}")
    strategy = options.get("strategy")
    if strategy not in STRATEGIES:
        raise ValueError(f"the strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
    again = options.get("if_deduplicated")
    if again not in (None, RESCHEDULE_ONCE) or (again is not None and strategy != "until_executed"):
        raise ValueError(f'if_deduplicated must be "{RESCHEDULE_ONCE}", only with until_executed; got {again!r}')
    scheduled = options.get("including_scheduled", False)
    if not isinstance(scheduled, bool):
        raise ValueError(f"including_scheduled must be True or False, got {scheduled!r}")  # noqa: TRY004  # as all
    ttl_seconds = seconds(options["ttl"]) if "ttl" in options else default_ttl_seconds
    if strategy == "none":
        return None
    return Rule(ttl_seconds, at_start=strategy == "until_executing", scheduled=scheduled, again=again is not None)


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
