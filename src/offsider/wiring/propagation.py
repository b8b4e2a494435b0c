"""What travels with jobs: who caused them, and the id that ties a request and everything it set off together.

1. `context` opens a block around a request or a command, `bind_context` adds to it.
2. A push inside is stamped with ``meta.<name>`` and ``correlation_id``, GitLab's names. What a job has it keeps: what
   its payload says already is left alone, and it goes with it through every retry.
3. A job hands both on to what it pushes, with its own class as ``meta.caller_id``.

Nothing of this is entered for each job that runs: what a job carries is read from its payload when somebody asks.
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
from offsider.wiring.context import JobContext, current_job_or_none

ContextValue: TypeAlias = str | int | float | bool | None

CORRELATION = "correlation_id"
CALLER = "caller_id"
META = "meta."
#: Longer text is cut: it is stored with every job.
MOST_CHARACTERS = 255

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FOREIGN_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TOO_LARGE = 2**63
_NOTHING: Mapping[str, ContextValue] = MappingProxyType({})


@dataclass(slots=True)
class _Block:
    """One open block: shared by all that was started inside of it.

    Attributes:
        fields: as given, by name.
        job: the job inside of which the block was opened; it counts for no other.
        caller: answers who calls, for an edge that knows it only later: a route is found after the middleware.
    """

    fields: dict[str, ContextValue]
    job: JobContext | None
    caller: Callable[[], str | None] | None = None


_binding = threading.Lock()  # two threads of a request may bind at once
_block: ContextVar[_Block | None] = ContextVar("offsider_context", default=None)


@contextmanager
def context(**fields: ContextValue) -> Generator[None, None, None]:
    """Stamp every job that is pushed in the block with ``meta.<name>``, and with one ``correlation_id``.

    ::

        with offsider.context(user=user.name, project="acme/shop"):
            welcome.enqueue(user.id)

    Args:
        fields: text, numbers and booleans. Text is cut after 255 characters; None takes out what an outer block gave.
            ``caller_id`` says who calls; ``correlation_id`` continues one that came from elsewhere, otherwise the
            outermost block makes one.

    Blocks nest. Tasks and `asyncio.to_thread` started inside see the block; a thread of your own does when it runs in
    ``contextvars.copy_context().run(...)``.

    Raises:
        InvalidOptions: a name or a value cannot be stored.
    """
    with _opened(_checked(fields), None):
        yield


@contextmanager
def edge(caller: Callable[[], str | None], correlation_id: str | None = None) -> Generator[None, None, None]:
    """`context` for the entry of a request.

    Args:
        caller: asked at each push who calls; None: nobody knows.
        correlation_id: as a foreign client sent it; anything but a short word is replaced.
    """
    continued = correlation_id is not None and _FOREIGN_ID.fullmatch(correlation_id)
    with _opened({CORRELATION: correlation_id if continued else new_correlation_id()}, caller):
        yield


def bind_context(**fields: ContextValue) -> None:
    """Add to the innermost `context` block: what a request learns on its way, such as its user.

    Inside of a job without a block of its own the fields belong to this run of the job. Without any block they hold
    for as long as the thread or the task lives: right for a command, wrong for a server.

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
    """The payload keys that a push made here is given, where it has none of its own."""
    job = current_job_or_none()
    if job is None:
        block = _block.get()
        return _NOTHING if block is None or block.job is not None else _told(_as_keys(_of_block(block)))
    # Said inside of the job, its own name, and only then what caused the job itself.
    return _told({**_payload_fields(job), f"{META}{CALLER}": _name_of(job), **_as_keys(_said_in(job))})


def carried(job: JobContext | None) -> Mapping[str, ContextValue]:
    """What belongs to this place, for the log: of the running job, or of the open block when ``job`` is None."""
    if job is not None:
        said = _said_in(job)
        found = _payload_fields(job)
        return _told({**found, **_as_keys(said)}) if said else found
    block = _block.get()
    return _NOTHING if block is None or block.job is not None else _told(_as_keys(_of_block(block)))


def payload_context(payload: Mapping[str, Any]) -> dict[str, ContextValue]:
    """``meta.*`` of a payload and its correlation id. A job without one began the chain: it is its own jid."""
    found: dict[str, ContextValue] = {}
    correlation = payload.get(CORRELATION) or payload.get("jid")
    if isinstance(correlation, str) and correlation:
        found[CORRELATION] = correlation[:MOST_CHARACTERS]
    for key in [key for key in payload if key[:5] == META]:
        value = payload[key]
        if isinstance(value, str):
            found[key] = value[:MOST_CHARACTERS]
        elif isinstance(value, int | float):
            found[key] = value
    return found


def new_correlation_id() -> str:
    """A fresh id: 32 hex digits, as tracing systems write theirs."""
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
    except Exception:  # noqa: BLE001  # it looks into a web framework; a push must not fail of that
        return block.fields
    return {**block.fields, CALLER: None if caller is None else caller[:MOST_CHARACTERS]}


def _said_in(job: JobContext) -> Mapping[str, ContextValue]:
    block = _block.get()
    if block is not None and block.job is job:
        return {**(job.bound or _NOTHING), **block.fields}
    return job.bound or _NOTHING


def _payload_fields(job: JobContext) -> dict[str, ContextValue]:
    return payload_context(cast("Mapping[str, Any]", job.payload))


def _name_of(job: JobContext) -> str:
    wrapped = job.payload.get("wrapped")  # the class inside of an Active Job
    return (wrapped if isinstance(wrapped, str) and wrapped else job.name)[:MOST_CHARACTERS]


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
        return value[:MOST_CHARACTERS]
    if value is None or (isinstance(value, int) and abs(value) < _TOO_LARGE):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise InvalidOptions(f"context: {name} must be text, a number, a boolean or None, got {value!r}; give str() of it")
