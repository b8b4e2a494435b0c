"""What can be said about a job besides its arguments: the options, their checks, and what of them is stored."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict, cast

from offsider.core.errors import InvalidOptions
from offsider.core.payload import JobPayload

# The error is Any, so that a function that expects one kind of error is accepted.
RetryIn: TypeAlias = Callable[[int, Any, JobPayload], float | timedelta | Literal["kill", "discard"] | None]
OnExhausted: TypeAlias = Callable[[JobPayload, Any], object]
Urgency: TypeAlias = Literal["high", "low", "throttled"]
ResourceBoundary: TypeAlias = Literal["cpu", "memory", "none", "unknown"]


class JobOptions(TypedDict, total=False):
    """Options of one push, accepted by ``.using(...)`` and by declarations."""

    queue: str
    """Where the job waits: letters, digits and ``_ . : -``. Default ``"default"``."""
    retry: bool | int
    """True: 25 times (or the setting ``max_retries``). A number: so often, then the dead set; 0 goes there at
    once. False: never, and not to the dead set either."""
    retry_for: float | timedelta
    """Retry for so many seconds after the first failure, in place of a number of times."""
    retry_queue: str
    """The queue for retries, when it is another one."""
    dead: bool
    """False: when the retries are used up, discard the job and keep it out of the dead set."""
    backtrace: bool | int
    """Store the error's backtrace: True for all lines, a number for the first so many. Default False."""
    tags: Sequence[str]
    """Labels to see and filter by."""
    log_level: str
    """The level of this job's log lines: debug, info, warning, error or critical."""
    soft_timeout: float | timedelta
    """After so many seconds `SoftTimeout` is raised in the job, which may clean up. One that it lets through is a
    failure."""
    hard_timeout: float | timedelta
    """After so many seconds the job has failed with `HardTimeout`; a worker that cannot end it ends itself."""
    profile: str
    """A name for the profiler of Ruby workers and of what reads the payload. offsider carries it and profiles
    nothing itself yet."""
    profiler_options: Mapping[str, Any]
    """What that profiler is told, carried in the same way."""
    wait_replicas: int
    """Wait until so many replicas confirmed the push. Not stored."""
    server: str
    """The server that gets the job, one of the configuration's; a routing rule that names one is stronger. Default
    ``"main"``. Not stored."""
    unique_for: float | timedelta | Literal[False]
    """Drop the same job while this one waits or runs, for so many seconds at most. False: not this push. This and the
    next two are of the extension ``Unique``, and are refused where it is not installed."""
    unique_until: Literal["success", "start"]
    """Until when: the job has succeeded (the default), or begins to run."""
    deduplicate: str | Mapping[str, Any]
    """A strategy of GitLab's, ``"until_executing"`` or ``"until_executed"``, or a mapping with one and more."""
    extra: Mapping[str, Any]
    """Options of installed extensions, stored beside the others."""


class JobDeclaration(JobOptions, total=False):
    """What ``@job(...)`` and the class line of a ``Job`` accept on top of the options of a push."""

    name: str
    """The name stored in the payload. Default: module and qualified name."""
    aliases: Sequence[str]
    """Older names under which stored jobs may still arrive."""
    retry_in: RetryIn
    """``retry_in(count, error, payload)``: seconds, a timedelta, ``"kill"``, ``"discard"``, or None for the
    default formula. ``count`` is 0 at the first failure."""
    on_exhausted: OnExhausted
    """``on_exhausted(payload, error)``, when the retries are used up; return ``"discard"`` to avoid the dead set."""
    client: Any
    """The client that pushes this job, or a function that gives it. Not stored."""
    shared_with_ruby: bool
    """True: Ruby pushes or runs this job too, so keyword-only parameters are refused at declaration."""
    big_payload: bool
    """True: its payloads may be large: they are neither warned of nor refused for their size. Default False."""
    urgency: Urgency
    """How soon a run should begin: ``"high"``, ``"low"`` (the default) or ``"throttled"``. This and what follows
    are for routing rules, the manifest and the people who run the fleet; nothing of it is stored."""
    resource_boundary: ResourceBoundary
    """What a run uses most: ``"cpu"``, ``"memory"`` or ``"none"`` (the default; ``"unknown"`` is the same)."""
    feature_category: str
    """The part of the product, or the team, that the job belongs to: letters, digits and ``_ : . -``."""
    external_dependencies: bool
    """True: a run calls services that others run. Default False."""
    weight: int
    """Its share among jobs of other classes, from 1, which is the default."""
    idempotent: bool
    """True: running it twice does no harm. Default False."""
    queue_namespace: str
    """Put before the name of the queue that a routing rule generates: ``namespace:name``."""
    concurrency_limit: int
    """The most runs at one time in the whole fleet; 0: no limit. Of the extension ``ConcurrencyLimits``, and refused
    where it is not installed."""


QUEUE_NAME = re.compile(r"[A-Za-z0-9_.:-]+")
LOG_LEVELS = frozenset({"debug", "info", "warn", "warning", "error", "fatal", "critical"})
MAX_SECONDS = 1e9  # a larger number is a point in time given by mistake; Sidekiq refuses it too
# Options that may be given as a timedelta and are stored in seconds.
DURATIONS = frozenset({"retry_for", "soft_timeout", "hard_timeout"})

# Options that Redis never sees.
TRANSIENT = frozenset(
    {
        *("name", "aliases", "retry_in", "on_exhausted", "client", "shared_with_ruby", "big_payload"),
        *("wait_replicas", "server", "extra"),
    }
)
# Options of extensions that come with the package, and what installs them: plain data, for a message.
INSTALLED_BY = {
    **dict.fromkeys(("unique_for", "unique_until", "deduplicate"), "offsider.ext.unique.Unique"),
    "concurrency_limit": "offsider.ext.concurrency_limits.ConcurrencyLimits",
}
# Payload keys that say what the job is; no option may overwrite them.
RESERVED = frozenset(
    {"class", "args", "kwargs", "jid", "at", "created_at", "enqueued_at", "retry_count", "interrupted_count"}
)


def check_queue_name(name: object, *, what: str = "queue") -> str:
    """``name`` when it can be a queue's; InvalidOptions when it is empty, no string, or has odd characters."""
    if not isinstance(name, str) or not QUEUE_NAME.fullmatch(name):
        raise InvalidOptions(f"{what} must be letters, digits and _ . : - (at least one), got {name!r}")
    return name


def check_options(options: Mapping[str, Any], *, job_name: str, known_extra: Collection[str] = ()) -> None:
    """Raise InvalidOptions, naming the job, for an option that is unknown, impossible, or contradicts another."""
    try:
        for key, value in options.items():
            _check_option(key, value, known_extra)
        check_retry_pair(options)
        check_limits(options)
    except InvalidOptions as error:
        raise InvalidOptions(f"{job_name}: {error}") from None


def check_known(payload: Mapping[str, Any], *, job_name: str) -> None:
    """Check the options among the keys of a payload; keys that offsider does not know pass."""
    try:
        for key in payload:
            check = _CHECKS.get(key)
            if check:
                check(key, payload[key])
        check_retry_pair(payload)
        check_limits(payload)
    except InvalidOptions as error:
        raise InvalidOptions(f"{job_name}: {error}") from None


def check_retry_pair(options: Mapping[str, Any]) -> None:
    """``retry_for`` replaces the number of retries, so both together are refused; ``retry=True`` says nothing."""
    if options.get("retry_for") is not None and options.get("retry", True) is not True:
        raise InvalidOptions(f"retry={options['retry']!r} and retry_for exclude each other; give one of them")


def check_limits(options: Mapping[str, Any]) -> None:
    """A soft limit is of use only before the hard one."""
    soft, hard = (_as_seconds(options.get(key)) for key in ("soft_timeout", "hard_timeout"))
    if soft is not None and hard is not None and soft >= hard:
        raise InvalidOptions(f"soft_timeout must be less than hard_timeout, got {soft:g} and {hard:g} seconds")


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The part of ``options`` that is stored in the payload, in stored form and in the given order."""
    wire = {key: _wire_value(key, value) for key, value in options.items() if key not in TRANSIENT}
    wire.update(options.get("extra") or {})
    return wire


def merge_options(first: Mapping[str, Any], *later: Mapping[str, Any]) -> dict[str, Any]:
    """Stored options of several layers, later ones winning.

    A later ``retry`` also cancels an earlier ``retry_for`` and the reverse, since they exclude each other.
    """
    merged = dict(first)
    for layer in later:
        if "retry_for" in layer:
            if "retry" not in layer and "retry" in merged:
                merged["retry"] = True
        elif "retry" in layer:
            merged.pop("retry_for", None)
        merged.update(layer)
    return merged


def _wire_value(key: str, value: Any) -> Any:
    if key in DURATIONS and isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    if key == "tags" and value is not None:
        return list(value)
    if key == "profiler_options" and value is not None:
        return dict(value)
    return value


def _check_option(key: str, value: Any, known_extra: Collection[str]) -> None:
    check = _CHECKS.get(key)
    if check:
        check(key, value)
    elif key == "extra":
        _check_extra(value, known_extra)
    elif key not in TRANSIENT and (key not in known_extra or key in RESERVED):
        known = ", ".join(sorted({*_CHECKS, *known_extra}))
        raise InvalidOptions(f"unknown option {key!r}; {_installed_by(key) or f'known options are {known}'}")


def _check_extra(value: Any, known_extra: Collection[str]) -> None:
    if not isinstance(value, Mapping):
        raise InvalidOptions(f"extra must be a mapping, got {value!r}")
    for key in cast("Mapping[object, object]", value):
        if key not in known_extra or key in RESERVED:
            known = f"installed extensions know {sorted(known_extra)}"
            raise InvalidOptions(f"unknown option {key!r} in extra; {_installed_by(key) or known}")


def _installed_by(key: object) -> str:
    """Which extension knows an option, for one of ours; empty for any other."""
    extension = INSTALLED_BY.get(key) if isinstance(key, str) else None
    if extension is None:
        return ""
    module, _, name = extension.rpartition(".")
    return (
        f"it is of an extension that is not installed here: config.use({name}()), imported from {module}, in the "
        "function configure of the application"
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_retry(key: str, value: Any) -> None:
    if not isinstance(value, bool) and not _is_whole(value):
        raise InvalidOptions(f"{key} must be True, False or a whole number >= 0, got {value!r}")


def _as_seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _check_duration(key: str, value: Any) -> None:
    seconds = _as_seconds(value)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or not 0 < seconds <= MAX_SECONDS:
        raise InvalidOptions(f"{key} must be a positive number of seconds (up to 1e9) or a timedelta, got {value!r}")


def _check_queue(key: str, value: Any) -> None:
    check_queue_name(value, what=key)


def _check_switch(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidOptions(f"{key} must be True or False, got {value!r}")


def _check_tags(key: str, value: Any) -> None:
    fits = isinstance(value, list | tuple) and all(isinstance(item, str) for item in cast("Sequence[object]", value))
    if not fits:
        raise InvalidOptions(f"{key} must be a list of strings, got {value!r}")


def _check_log_level(key: str, value: Any) -> None:
    if not isinstance(value, str) or value.lower() not in LOG_LEVELS:
        raise InvalidOptions(f"{key} must be one of {', '.join(sorted(LOG_LEVELS))}, got {value!r}")


def _check_text(key: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidOptions(f"{key} must be a string that is not empty, got {value!r}")


def _check_mapping(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise InvalidOptions(f"{key} must be a mapping, got {value!r}")


def _check_replicas(key: str, value: Any) -> None:
    if not _is_whole(value):
        raise InvalidOptions(f"{key} must be a whole number >= 0, got {value!r}")


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "queue": _check_queue,
    "retry": _check_retry,
    "retry_for": _check_duration,
    "retry_queue": _check_queue,
    "dead": _check_switch,
    "backtrace": _check_retry,
    "tags": _check_tags,
    "log_level": _check_log_level,
    "soft_timeout": _check_duration,
    "hard_timeout": _check_duration,
    "profile": _check_text,
    "profiler_options": _check_mapping,
    "wait_replicas": _check_replicas,
    "server": _check_text,
}
