"""Fields of the structured log: GitLab's names, and JSON encoding that never fails.

A line is one flat object. With any fields from a job, it is valid JSON without control characters, and of bounded size:
log shippers truncate or drop longer lines, mostly silently.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from typing import Any, cast

from offsider.core.error_text import class_of, shown, trace_of
from offsider.core.payload import decode_or_none, encode, encode_text, json_encoder, shown_class
from offsider.runtime.context import JobContext, current_job_or_none
from offsider.runtime.propagation import carried, payload_context

#: Values of longer lines are truncated; Docker splits lines at 16 KB.
MAX_CHARACTERS = 16_000
_CUTS = (2_000, 200, 20)
_MAX_FIELDS = 150
_MAX_ITEMS = 25
_MAX_NAME = 64
_MAX_ITEM = 300
_MAX_MESSAGE = 2_000
_MAX_ARGUMENTS = 1_000
_LARGEST = 2**64
_LONE_SURROGATE = re.compile(r"\\ud[89ab]..(?!\\ud[c-f])|(?<!\\ud[89ab]..)\\ud[c-f]", re.IGNORECASE)
#: Keys of `Config.handle_error`'s context whose values are whole jobs.
_PAYLOAD, _PAYLOAD_BYTES = "job", "jobstr"


def about_running(job: JobContext | None) -> dict[str, object]:
    """Return the fields of every line about the running job, or outside a job about the open `context` block."""
    if job is None:
        return dict(carried(None))
    fields = _identity(cast("Mapping[str, Any]", job.payload), job.queue)
    fields.update(carried(job))
    return fields


def about_payload(payload: Mapping[str, Any], queue: str = "") -> dict[str, object]:
    """Return the fields about a job that does not run here: a line with them is about that job only.

    Args:
        payload: any key can be missing.
        queue: the queue of the job, if the payload has none.
    """
    fields = _identity(payload, queue or payload.get("queue", ""))
    fields.update(payload_context(payload))
    return fields


def about_raw(raw: bytes, queue: str) -> dict[str, object]:
    """Return the fields about a stored job; only the queue if the bytes are not a job."""
    payload = decode_or_none(raw)
    return {"queue": queue} if payload is None else about_payload(cast("Mapping[str, Any]", payload), queue)


def is_about(job: JobContext, fields: Mapping[str, object]) -> bool:
    """Whether a line with these fields is about the running job: they identify no other one."""
    jid = fields.get("jid")
    return jid == job.jid if jid else "class" not in fields


def line_fields(own: Mapping[str, object]) -> dict[str, object]:
    """Return all fields of a structured line: its own, which take precedence, and those of the context.

    If its own fields identify another job, the fields of the running job are omitted.
    """
    job = current_job_or_none()
    about: dict[str, object] = {}
    if job is None:
        if not own.get("jid"):
            about.update(carried(None))
    elif is_about(job, own):
        about = about_running(job)
        if job.log:
            # The fields that identify the job precede all others, and added fields do not replace them.
            return {**about, **own, **job.log, **about, **own}
    about.update(own)
    return about


def about_error(error: BaseException) -> dict[str, object]:
    """Return class, message and backtrace of an error, innermost frame first as in Ruby."""
    frames = reversed(traceback.extract_tb(trace_of(error), -_MAX_ITEMS))
    lines = [_cut(f"{frame.filename}:{frame.lineno}:in `{frame.name}'", _MAX_ITEM) for frame in frames]
    fields: dict[str, object] = {"error_class": class_of(error), "error_message": shown(error, _MAX_MESSAGE)}
    if lines:
        fields["error_backtrace"] = lines
    return fields


def arguments_of(payload: Mapping[str, Any]) -> str:
    """Return the arguments of a job as JSON text, truncated to 1,000 characters."""
    given: Sequence[Any] = payload.get("args", ())
    kwargs = payload.get("kwargs")
    return _cut(encode_text([*given, kwargs] if kwargs else given), _MAX_ARGUMENTS)


def loggable(context: Mapping[str, object], *, arguments: bool) -> dict[str, object]:
    """Convert the context of an error report to log fields: they identify the job, without its arguments.

    Args:
        arguments: the setting ``log.arguments``.
    """
    fields = {name: value for name, value in context.items() if name not in {_PAYLOAD, _PAYLOAD_BYTES}}
    payload, raw = context.get(_PAYLOAD), context.get(_PAYLOAD_BYTES)
    if isinstance(payload, dict):
        job = cast("dict[str, Any]", payload)
        fields = {**about_payload(job), **fields}
        if arguments:
            fields["args"] = arguments_of(job)
    if arguments and isinstance(raw, bytes):
        fields[_PAYLOAD_BYTES] = _cut(raw.decode(errors="replace"), _MAX_ARGUMENTS)
    return fields


def size_of(job: JobContext) -> int:
    """Return the size of a job in Redis, in bytes."""
    return len(job.raw or encode(cast("Mapping[str, Any]", job.payload)))


_encode = json_encoder("encode_basestring_ascii", (", ", ": "), shown)


def line_of(entry: Mapping[str, object]) -> str:
    """Encode a flat object as one line of JSON, of up to about `MAX_CHARACTERS`."""
    try:
        line = _encode(entry)
    except (ValueError, TypeError, RecursionError):  # NaN, a cycle, keys that are no text
        line = ""
    for most in _CUTS if not line or len(line) > MAX_CHARACTERS or _has_lone_surrogate(line) else ():
        line = _encode(bounded(entry, most))
        if len(line) <= MAX_CHARACTERS:
            return line
    return line if len(line) <= MAX_CHARACTERS else _encode(_first_fields(entry))


def _has_lone_surrogate(line: str) -> bool:
    r"""Whether a line contains a lone surrogate such as ``\ud800``, which JSON allows and most readers reject."""
    return "\\ud" in line and _LONE_SURROGATE.search(line.replace("\\\\", "")) is not None


def _first_fields(entry: Mapping[str, object]) -> dict[str, object]:
    """Return as many fields as fit, starting with those that identify the job."""
    fields = bounded(entry, _CUTS[-1])
    ends_at = accumulate(len(_encode({name: value})) for name, value in fields.items())
    return {name: fields[name] for name, end in zip(fields, ends_at, strict=True) if end <= MAX_CHARACTERS}


def bounded(entry: Mapping[str, object], most: int) -> dict[str, object]:
    """Return the first 150 fields, with texts of up to ``most`` characters, and only values that JSON can encode."""
    return {_cut(shown(name), _MAX_NAME): _plain(value, most) for name, value in islice(entry.items(), _MAX_FIELDS)}


def _identity(payload: Mapping[str, Any], queue: str) -> dict[str, object]:
    known = {"class": shown_class(payload), "jid": payload.get("jid"), "queue": queue, "tags": payload.get("tags")}
    return {name: value for name, value in known.items() if value}


def _plain(value: object, most: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < _LARGEST:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return [_cut(shown(item), min(most, _MAX_ITEM)) for item in items[:_MAX_ITEMS]]
    return _cut(shown(value), most)


def _cut(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")
