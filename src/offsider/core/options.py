"""The options of a job: types, checks and stored form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, Required, TypeAlias, TypedDict, cast

from offsider.core.arguments import is_unicode
from offsider.core.clock import as_seconds
from offsider.core.errors import InvalidOptions
from offsider.core.kinds import DURATION, FLAG, Kind, choice, flag, kind, literal, text, whole, words_in
from offsider.core.payload import JobPayload
from offsider.core.removed import message
from offsider.core.suggestions import suggest
from offsider.core.wording import shown

# The error is Any, so that a function that expects one kind of error is accepted.
RetryIn: TypeAlias = Callable[[int, Any, JobPayload], float | timedelta | Literal["kill", "discard"] | None]
OnExhausted: TypeAlias = Callable[[JobPayload, Any], object]
Urgency: TypeAlias = Literal["high", "low", "throttled"]
ResourceBoundary: TypeAlias = Literal["cpu", "memory", "none", "unknown"]


class JobOptions(TypedDict, total=False):
    """Options of one push, accepted by ``.using(...)`` and by declarations."""

    queue: str
    """Queue name. Default ``"default"``."""
    retry: bool | int
    """True: 25 retries (or the setting ``max_retries``). A number: maximum retries, then the dead set; 0 moves the job
    there after the first failure. False: no retries, and the job is discarded."""
    retry_for: float | timedelta
    """Retry for this many seconds after the first failure, instead of a number of retries."""
    retry_queue: str
    """The queue for retries. Default: the same queue."""
    dead: bool
    """False: after the last retry, discard the job instead of moving it to the dead set."""
    backtrace: bool | int
    """Store the error's backtrace: True for all lines, or a number of lines. Default False."""
    tags: Sequence[str]
    """Labels for display and filters."""
    log_level: str
    """The level of this job's log lines: debug, info, warning, error or critical; stored under Ruby's names."""
    expires_in: float | timedelta
    """Seconds after the push, or after the due time of a scheduled job, until the job expires: a worker then deletes it
    instead of starting it. Retries expire too."""
    soft_timeout: float | timedelta
    """Seconds after which `SoftTimeout` is raised in the job, which may clean up. If the job does not catch it, the run
    fails."""
    hard_timeout: float | timedelta
    """Seconds after which the run fails with `HardTimeout`; a worker that cannot stop the job exits."""
    after_commit: bool | Literal["outbox"]
    """False: push now, inside of an open database transaction. True: wait for its commit if ``config.after_commit`` is
    set, as it is in Django. ``"outbox"``: write the push as a row of the database, in the open transaction; a worker
    moves it to Redis. Default: ``"outbox"`` if an outbox is installed for all jobs, else True. Not stored."""
    wait_replicas: int
    """Wait until this many replicas have confirmed the push. Not stored."""
    server: str
    """Name of the server that receives the job; a routing rule that names a server takes precedence. Default
    ``"main"``. Not stored."""
    unique_for: float | timedelta | Literal[False]
    """Drop duplicates while this job waits or runs, for up to this many seconds, at most 30 days. False: not for this
    push. This and the next five options belong to the extension ``Unique``, and are rejected if it is not installed."""
    unique_until: Literal["success", "start", "until_executed", "until_executing", "none"]
    """When the lock ends: after the job succeeds (the default), or when it starts. GitLab's names do not lock scheduled
    jobs; ``"none"``: no lock."""
    including_scheduled: bool
    """Whether scheduled jobs are locked too, from the push on."""
    reschedule_once: bool
    """True: run the job once more if duplicates were dropped before it ended."""
    throttle: float | timedelta | Literal[False]
    """Drop further pushes of the same job for this many seconds."""
    debounce: float | timedelta | Literal[False]
    """Delay the job for this many seconds; another push of the same class during the delay replaces it."""
    track: bool | Literal["arguments"]
    """True: store the state of the job, for ``jid.status()``; ``"arguments"``: with its arguments. This and the next
    option belong to the extension ``Results``, and are rejected if it is not installed."""
    keep_result: float | timedelta | Literal[False]
    """Store the state, and keep it and the result of the job for this many seconds after its end. False: no result."""
    profile: str
    """Profile the run, under this name. Belongs to the extension ``Profiles``."""
    encrypt: bool
    """True: encrypt the last argument. Belongs to the extension ``Encryption``."""
    extra: Mapping[str, Any]
    """Options of installed extensions, stored as payload keys."""


class JobDeclaration(JobOptions, total=False):
    """Options of ``@job(...)`` and of a ``Job`` subclass, in addition to those of a push."""

    name: str | Sequence[str]
    """The name stored in the payload. Default: module and qualified name. A list: this name, and former names of the
    job, for stored jobs."""
    retry_in: RetryIn
    """``retry_in(count, error, payload)``: seconds, to which jitter is added; a timedelta for an exact delay;
    ``"kill"``, ``"discard"``, or None for the default formula. ``count`` is 0 at the first failure."""
    on_exhausted: OnExhausted
    """``on_exhausted(payload, error)`` runs after the last retry; return ``"discard"`` to avoid the dead set."""
    shared_with_ruby: bool
    """True: Ruby pushes or runs this job too, so keyword-only parameters are refused at declaration."""
    codec: Literal["annotations"] | None
    """``"annotations"``: arguments have the types of their annotations, such as datetime, UUID or a dataclass, and are
    stored as plain JSON. Default: that of ``config.jobs``, or None."""
    isolated: bool
    """True: run each job in a process of its own, beside the worker. Not for ``async def``. Default False."""
    big_payload: bool
    """True: large payloads cause neither a warning nor an error. Default False."""
    urgency: Urgency
    """How soon a run should start: ``"high"``, ``"low"`` (the default) or ``"throttled"``. This and the next options
    are for routing rules, the manifest and operators. They are not stored."""
    resource_boundary: ResourceBoundary
    """The resource that limits a run: ``"cpu"``, ``"memory"`` or ``"none"`` (the default; ``"unknown"`` is equal)."""
    feature_category: str
    """The part of the product, or the team, that owns the job: letters, digits and ``_ : . -``."""
    external_dependencies: bool
    """True: a run calls external services. Default False."""
    idempotent: bool
    """True: running it twice is harmless. Default False. With the extension ``Unique``, such a job has
    ``unique_until="until_executing"`` by default."""
    concurrency_limit: int
    """Maximum concurrent runs across the fleet; 0 for no limit. This and the next options belong to the extension
    ``ConcurrencyLimits``, and are rejected if it is not installed."""
    rate_limit: str | Callable[[], str | None]
    """Maximum starts in a time across the fleet, ``"100/minute"``, ``"100/30"`` for 30 seconds; or a function that
    returns it, called every ten seconds. Not stored."""
    key: Callable[..., str | int | None]
    """Apply the limits to each key separately, such as an account: ``lambda account_id: account_id``. The function gets
    the arguments that its parameters name, or else all of them. It runs in the worker and is not stored."""
    fair_share: float
    """Share of all threads of the fleet that the jobs of one key may occupy, such as 0.25. Not stored."""


class ChunkDeclaration(JobDeclaration, total=False):
    """Options of ``@job(chunk=...)``: one call of the function runs many jobs."""

    chunk: Required[int]
    """Maximum number of jobs in one call."""
    chunk_seconds: float | timedelta
    """The call begins this many seconds after the first job has come, also with fewer jobs. Default 5."""


# Ruby's level names: a Ruby worker loses jobs with other names.
LOG_LEVELS = {
    "debug": "debug",
    "info": "info",
    "warn": "warn",
    "warning": "warn",
    "error": "error",
    "fatal": "fatal",
    "critical": "fatal",
}

#: The value of ``after_commit`` that sends a push through the outbox.
OUTBOX = "outbox"
# Options that are not stored.
TRANSIENT = frozenset(
    {
        *("name", "retry_in", "on_exhausted", "shared_with_ruby", "big_payload", "codec"),
        *("chunk", "chunk_seconds"),
        *("after_commit", "wait_replicas", "server", "extra"),
    }
)
URGENCIES = ("high", "low", "throttled")
BOUNDARIES = ("cpu", "memory", "none", "unknown")
# Options of bundled extensions that are declared only, and evaluated in the worker.
FUNCTIONS = frozenset({"rate_limit", "key", "fair_share"})
# Options of bundled extensions, and how to install them, for an error message.
INSTALLED_BY = {
    **dict.fromkeys(
        ("unique_for", "unique_until", "including_scheduled", "reschedule_once", "throttle", "debounce"),
        "offsider.ext.unique.Unique",
    ),
    **dict.fromkeys(("track", "keep_result"), "offsider.ext.results.Results"),
    "profile": "offsider.ext.profiles.Profiles",
    "encrypt": "offsider.ext.encryption.Encryption",
    **dict.fromkeys(
        ("concurrency_limit", "rate_limit", "key", "fair_share"),
        "offsider.ext.concurrency_limits.ConcurrencyLimits",
    ),
}
# Payload keys that identify the job; no option may overwrite them.
RESERVED = frozenset(
    {"class", "args", "kwargs", "jid", "at", "created_at", "enqueued_at", "retry_count", "interrupted_count"}
    | {"rescheduled_count", "overrated"}
)


def check_queue_name(name: object, *, what: str = "queue") -> str:
    """Return a valid queue name: as in Ruby, any non-empty string. Otherwise raise InvalidOptions."""
    _check_value(_QUEUE, what, name)
    return cast(str, name)


def check_options(options: Mapping[str, Any], *, job_name: str, known_extra: Collection[str] = ()) -> None:
    """Raise InvalidOptions, with the job name, for an unknown, invalid or contradictory option."""
    try:
        for key, value in options.items():
            _check_option(key, value, known_extra)
        check_retry_pair(options)
        check_limits(options)
    except InvalidOptions as error:
        raise InvalidOptions(f"{job_name}: {error}") from None


def check_declaration(declared: Mapping[str, Any], *, job_name: str) -> None:
    """Raise InvalidOptions, with the job name, for an invalid option that only a declaration has."""
    try:
        for key, expected in _DECLARED.items():
            if key in declared:
                _check_value(expected, key, declared[key])
    except InvalidOptions as error:
        raise InvalidOptions(f"{job_name}: {error}") from None


def check_known(payload: Mapping[str, Any], *, job_name: str) -> None:
    """Check the options among the keys of a payload; unknown keys pass."""
    is_checked = False
    try:
        for key in payload:
            expected = OPTIONS.get(key)
            if expected is not None:
                _check_value(expected, key, payload[key])
                is_checked = True
        if is_checked:
            check_retry_pair(payload)
            check_limits(payload)
    except InvalidOptions as error:
        raise InvalidOptions(f"{job_name}: {error}") from None


def check_retry_pair(options: Mapping[str, Any]) -> None:
    """Raise InvalidOptions for ``retry_for`` with a number of retries, which it replaces; ``retry=True`` is fine."""
    if options.get("retry_for") is not None and options.get("retry", True) is not True:
        raise InvalidOptions(f"retry={options['retry']!r} and retry_for exclude each other; give one of them")


def check_limits(options: Mapping[str, Any]) -> None:
    """Raise InvalidOptions unless the soft timeout is shorter than the hard timeout."""
    soft, hard = options.get("soft_timeout"), options.get("hard_timeout")
    if soft is not None and hard is not None:
        soft, hard = as_seconds(soft, "soft_timeout"), as_seconds(hard, "hard_timeout")
        if soft >= hard:
            raise InvalidOptions(f"soft_timeout must be less than hard_timeout, got {soft:g} and {hard:g} seconds")


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored part of ``options``, in stored form and in the given order."""
    wire = {key: _wire_value(key, value) for key, value in options.items() if key not in TRANSIENT}
    wire.update(options.get("extra") or {})
    return wire


def merge_options(first: Mapping[str, Any], *later: Mapping[str, Any]) -> dict[str, Any]:
    """Merge stored options of several layers. Later layers take precedence.

    A later ``retry`` also cancels an earlier ``retry_for`` and vice versa, since they exclude each other.
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


def stored_level(level: str) -> str:
    """Return Ruby's name of a log level."""
    return LOG_LEVELS[level.lower()]


def _wire_value(key: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    if key == "tags" and value is not None:
        return list(value)
    if key == "log_level" and value is not None:
        return stored_level(value)
    return value


def _check_value(expected: Kind, key: str, value: Any) -> None:
    try:
        expected.check(value)
    except ValueError:
        raise InvalidOptions(f"{key} must be {expected.expects}, got {shown(value)}") from None


def _check_option(key: str, value: Any, known_extra: Collection[str]) -> None:
    if key in OPTIONS:
        _check_value(OPTIONS[key], key, value)
    elif gone := message("option", key):
        raise InvalidOptions(gone)
    elif key == "extra":
        _check_extra(value, known_extra)
    elif key not in TRANSIENT and (key not in known_extra or key in RESERVED):
        known = {*OPTIONS, *known_extra}
        near = "" if key in INSTALLED_BY else suggest(key, {*known, *TRANSIENT, *INSTALLED_BY})
        more = _installed_by(key) or f"known options are {', '.join(sorted(known))}"
        raise InvalidOptions(f"unknown option {key!r}{near or f'; {more}'}")


def _check_extra(value: Any, known_extra: Collection[str]) -> None:
    if not isinstance(value, Mapping):
        raise InvalidOptions(f"extra must be a mapping, got {value!r}")
    for key in cast("Mapping[object, object]", value):
        if key not in known_extra or key in RESERVED:
            known = f"installed extensions define {sorted(known_extra)}"
            raise InvalidOptions(f"unknown option {key!r} in extra; {_installed_by(key) or known}")


def _installed_by(key: object) -> str:
    """Return how to install the bundled extension of an option; empty for other options."""
    extension = INSTALLED_BY.get(key) if isinstance(key, str) else None
    if extension is None:
        return ""
    module, _, name = extension.rpartition(".")
    return (
        f"its extension is not installed: call config.use({name}()), imported from {module}, in a function "
        "with @configure_client"
    )


# ----------------------------------------------------------------------------------------------------
# The values of each option


_RETRIES = kind("True, False or a whole number >= 0", lambda value: isinstance(value, int) and value >= 0, literal)
_QUEUE = kind(
    "a string of at least one character", lambda value: isinstance(value, str) and value != "" and is_unicode(value)
)
_FUNCTION = kind("a function", lambda value: value is None or callable(value))
_TEXTS = kind("a list of strings", lambda value: isinstance(value, list | tuple) and _are_texts(value), words_in)


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _one_of(words: Collection[str]) -> Kind:
    return kind(f"one of {', '.join(words)}", lambda value: value in words)


#: Options of a push and of a declaration.
OPTIONS: dict[str, Kind] = {
    "queue": _QUEUE,
    "retry": _RETRIES,
    "retry_for": DURATION,
    "retry_queue": _QUEUE,
    "dead": replace(FLAG, parse=flag),
    "backtrace": _RETRIES,
    "tags": _TEXTS,
    "log_level": choice(*sorted(LOG_LEVELS)),
    "expires_in": DURATION,
    "soft_timeout": DURATION,
    "hard_timeout": DURATION,
    "after_commit": kind(f'True, False or "{OUTBOX}"', lambda value: isinstance(value, bool) or value == OUTBOX),
    "wait_replicas": whole(0),
    "server": text(".+", "a string that is not empty"),
}
#: What `characteristics.Characteristics` has: options of a declaration that are not stored.
CHARACTERISTICS: dict[str, Kind] = {
    "urgency": _one_of(URGENCIES),
    "resource_boundary": _one_of(BOUNDARIES),
    # One value of a query: no query could match a category in another format.
    "feature_category": text(r"[\w:.-]+", "letters, digits and _ : . - (at least one)"),
    "external_dependencies": FLAG,
    "idempotent": FLAG,
}
_DECLARED: dict[str, Kind] = CHARACTERISTICS | {
    "retry_in": _FUNCTION,
    "on_exhausted": _FUNCTION,
    "shared_with_ruby": FLAG,
    "big_payload": FLAG,
    "isolated": FLAG,
    "chunk": whole(1),
    "chunk_seconds": DURATION,
}
