"""Context propagation: the caller of a job, and one correlation id for a request and all jobs that result from it.

1. `context` opens a block around a request or a command, `bind_context` adds fields to it.
2. A push inside stores the fields in the payload as ``meta.<name>`` and ``correlation_id``, GitLab's names. Keys that
   the payload already has are not changed, and all keys stay in the payload through every retry.
3. A job passes both on to the jobs that it pushes, with its own class as ``meta.caller_id``.

A run has no extra cost: the fields are read from its payload only when they are needed.
"""

from __future__ import annotations

import math
import re
import secrets
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from offsider.core.errors import InvalidOptions
from offsider.runtime.context import JobContext, current_job_or_none

ContextValue: TypeAlias = str | int | float | bool | None

CORRELATION = "correlation_id"
CALLER = "caller_id"
META = "meta."
#: Fields that name the tenant of a job; the first one that its payload has.
TENANTS = ("tenant", "project", "organization", "root_namespace")
_CALLER_KEY = META + CALLER
_USER_KEY = f"{META}user"
_TENANT_KEYS = tuple(META + name for name in TENANTS)
#: Longer text is cut: it is stored with every job.
MAX_CHARACTERS = 255

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FOREIGN_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TOO_LARGE = 2**63
_NOTHING: Mapping[str, ContextValue] = MappingProxyType({})


@dataclass(slots=True)
class _Block:
    """One open block. The tasks and threads that were started inside share it.

    Attributes:
        fields: the given fields by name.
        job: the job that opened the block, which applies to no other job; None outside of jobs.
        caller: returns the caller, for web frameworks that find the route only after the middleware ran.
    """

    fields: dict[str, ContextValue]
    job: JobContext | None
    caller: Callable[[], str | None] | None = None


_binding = threading.Lock()  # two threads of a request may bind at once
_block: ContextVar[_Block | None] = ContextVar("offsider_context", default=None)


@contextmanager
def context(**fields: ContextValue) -> Generator[None, None, None]:
    """Store ``meta.<name>`` and one ``correlation_id`` in every job that is pushed in the block.

    ::

        with offsider.context(user=user.name, project="acme/shop"):
            welcome.enqueue(user.id)

    Args:
        fields: text, numbers and booleans. Text is cut after 255 characters; None removes a field of an outer block.
            ``caller_id`` names the caller. ``correlation_id`` continues an existing id; without it, the outermost
            block creates one.

    Blocks nest. Tasks and `asyncio.to_thread` calls that are started inside see the block. A thread that you start
    sees it if it runs in ``contextvars.copy_context().run(...)``.

    Raises:
        InvalidOptions: a name or a value cannot be stored.
    """
    with _opened(_checked(fields), None):
        yield


@contextmanager
def edge(caller: Callable[[], str | None], correlation_id: str | None = None) -> Generator[None, None, None]:
    """`context` for the entry of a request.

    Args:
        caller: returns the caller at each push; None if it is unknown.
        correlation_id: the id that an untrusted client sent; an id with other characters than usual, or more than 128
            of them, is replaced.
    """
    continued = correlation_id is not None and _FOREIGN_ID.fullmatch(correlation_id)
    with _opened({CORRELATION: correlation_id if continued else new_correlation_id()}, caller):
        yield


def bind_context(**fields: ContextValue) -> None:
    """Add fields to the innermost `context` block, for example the user after a request was authenticated.

    Inside a job that has opened no block, the fields belong to this run of the job. Outside of jobs and blocks, they
    apply until the thread or the task ends: use that in commands, not in servers.

    Raises:
        InvalidOptions: as `context`.
    """
    checked = _checked(fields)
    job = current_job_or_none()
    block = _block.get()
    if block is not None and block.job is job:
        with _binding:
            block.fields = {**block.fields, **checked}
    elif job is not None:
        with _binding:
            job.bound = {**(job.bound or {}), **checked}
    else:
        _block.set(_Block({CORRELATION: new_correlation_id(), **checked}, None))


def stamps() -> Mapping[str, ContextValue]:
    """Return the payload keys for a push from here; keys that the payload already has take precedence."""
    job = current_job_or_none()
    if job is None:
        return carried(None) if _block.get() is not None else _NOTHING
    # Strongest first: fields set inside the job, the job's own name, the fields of its payload.
    return _told({**_payload_fields(job), f"{META}{CALLER}": _name_of(job), **_as_keys(_said_in(job))})


def carried(job: JobContext | None) -> Mapping[str, ContextValue]:
    """Return the fields for a log line: of the running job, or of the open block if ``job`` is None."""
    if job is not None:
        said = _said_in(job)
        found = _payload_fields(job)
        return _told({**found, **_as_keys(said)}) if said else found
    block = _block.get()
    return _NOTHING if block is None or block.job is not None else _told(_as_keys(_of_block(block)))


def payload_context(payload: Mapping[str, Any]) -> dict[str, ContextValue]:
    """Return ``meta.*`` and the correlation id of a payload; the jid, if it has none: that job began the chain."""
    found: dict[str, ContextValue] = {}
    correlation = payload.get(CORRELATION) or payload.get("jid")
    if isinstance(correlation, str) and correlation:
        found[CORRELATION] = correlation[:MAX_CHARACTERS]
    for key in [key for key in payload if key[:5] == META]:
        value = payload[key]
        if isinstance(value, str):
            found[key] = value[:MAX_CHARACTERS]
        elif isinstance(value, int | float):
            found[key] = value
    return found


def origin_of(payload: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return caller, tenant and user of a payload: ``meta.caller_id``, the first of `TENANTS`, ``meta.user``."""
    return _shown(payload.get(_CALLER_KEY)), tenant_of(payload), _shown(payload.get(_USER_KEY))


def tenant_of(payload: Mapping[str, Any]) -> str:
    """Return the tenant of a payload: the first of `TENANTS`; empty if unknown."""
    return _shown(next((payload[name] for name in _TENANT_KEYS if name in payload), None))


def _shown(value: object) -> str:
    if type(value) is str:
        # A lone surrogate of a foreign client cannot be stored.
        return value if value.isascii() and len(value) <= MAX_CHARACTERS else _cut(value)
    return str(value) if isinstance(value, int | float) else ""


def _cut(text: str) -> str:
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def new_correlation_id() -> str:
    """Return a new id of 32 hex digits, the format of tracing systems."""
    return secrets.token_hex(16)


@contextmanager
def _opened(fields: dict[str, ContextValue], caller: Callable[[], str | None] | None) -> Generator[None, None, None]:
    job = current_job_or_none()
    outer = _block.get()
    if outer is not None and outer.job is job:
        kept = {name: value for name, value in outer.fields.items() if caller is None or name != CALLER}
        fields, caller = {**kept, **fields}, caller or outer.caller
    elif job is None:
        fields = {CORRELATION: new_correlation_id(), **fields}
    token = _block.set(_Block(fields, job, caller))
    try:
        yield
    finally:
        _block.reset(token)


def _of_block(block: _Block) -> Mapping[str, ContextValue]:
    if block.caller is None or CALLER in block.fields:
        return block.fields
    try:
        caller = block.caller()
    except Exception:  # noqa: BLE001  # it calls into a web framework, whose errors must not fail a push
        return block.fields
    return {**block.fields, CALLER: None if caller is None else caller[:MAX_CHARACTERS]}


def _said_in(job: JobContext) -> Mapping[str, ContextValue]:
    block = _block.get()
    if block is not None and block.job is job:
        return {**(job.bound or _NOTHING), **block.fields}
    return job.bound or _NOTHING


def _payload_fields(job: JobContext) -> dict[str, ContextValue]:
    return payload_context(cast("Mapping[str, Any]", job.payload))


def _name_of(job: JobContext) -> str:
    return job.shown_name[:MAX_CHARACTERS]


def _told(fields: Mapping[str, ContextValue]) -> dict[str, ContextValue]:
    return {name: value for name, value in fields.items() if value is not None}


def _as_keys(fields: Mapping[str, ContextValue]) -> dict[str, ContextValue]:
    return {name if name == CORRELATION else f"{META}{name}": value for name, value in fields.items()}


def _checked(fields: Mapping[str, ContextValue]) -> dict[str, ContextValue]:
    return {_checked_name(name): _checked_value(name, value) for name, value in fields.items()}


def _checked_name(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    raise InvalidOptions(f"context: {name!r} is no name for a field; use a-z, 0-9 and _, 64 characters at most")


def _checked_value(name: str, value: ContextValue) -> ContextValue:
    if isinstance(value, str):
        return value[:MAX_CHARACTERS]
    if value is None or (isinstance(value, int) and abs(value) < _TOO_LARGE):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise InvalidOptions(f"context: {name} must be text, a number, a boolean or None, got {value!r}; pass str(value)")
