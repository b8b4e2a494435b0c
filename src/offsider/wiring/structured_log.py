"""The structured log's vocabulary: GitLab's names for what a line tells about a job, and JSON that always gets written.

A line is one flat object. Whatever a job puts into it, it is valid JSON without control characters, and of bounded
size: log shippers cut or drop longer lines, mostly without a word.
"""

from __future__ import annotations

import json
import math
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any, cast

from offsider.core.payload import JobPayload, encode, encode_text
from offsider.wiring.context import JobContext
from offsider.wiring.propagation import carried, payload_context

#: A longer line has its values cut; 16 KB is where Docker splits lines.
MOST_CHARACTERS = 16_000
_CUTS = (2_000, 200, 20)
_MOST_FIELDS = 150
_MOST_ITEMS = 25
_MOST_NAME = 64
_MOST_ITEM = 300
_MOST_MESSAGE = 2_000
_MOST_ARGUMENTS = 1_000
_LARGEST = 2**64
_LONE_SURROGATE = re.compile(r"\\ud[89ab]..(?!\\ud[c-f])|(?<!\\ud[89ab]..)\\ud[c-f]", re.IGNORECASE)
#: Values of `Config.handle_error`'s context that hold a whole job.
_PAYLOAD, _PAYLOAD_BYTES = "job", "jobstr"


def about_here(job: JobContext | None) -> dict[str, object]:
    """What every line tells about the running job, or outside of one about the open `context` block."""
    if job is None:
        return dict(carried(None))
    fields = _identity(job.payload, job.queue)
    fields.update(carried(job))
    return fields


def about_payload(payload: JobPayload) -> dict[str, object]:
    """The same of a stored job that does not run here."""
    fields = _identity(payload, payload.get("queue", ""))
    fields.update(payload_context(cast("Mapping[str, Any]", payload)))
    return fields


def about_error(error: BaseException) -> dict[str, object]:
    """Class, message and backtrace of an error, innermost frame first as Ruby prints it."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    frames = islice(reversed(traceback.extract_tb(error.__traceback__)), _MOST_ITEMS)
    lines = [_cut(f"{frame.filename}:{frame.lineno}:in `{frame.name}'", _MOST_ITEM) for frame in frames]
    fields: dict[str, object] = {"error_class": name, "error_message": _cut(shown(error), _MOST_MESSAGE)}
    if lines:
        fields["error_backtrace"] = lines
    return fields


def arguments_of(payload: JobPayload) -> str:
    """The arguments of a job as JSON text, cut after 1,000 characters."""
    given: Sequence[Any] = payload["args"]
    kwargs = payload.get("kwargs")
    return _cut(encode_text([*given, kwargs] if kwargs else given), _MOST_ARGUMENTS)


def without_payloads(fields: Mapping[str, object], *, arguments: bool) -> dict[str, object]:
    """Fields of an error's report with a whole job in them told as `about_payload` does: its arguments may be secret.

    Args:
        arguments: tell them all the same.
    """
    told = {name: value for name, value in fields.items() if name not in {_PAYLOAD, _PAYLOAD_BYTES}}
    payload = fields.get(_PAYLOAD)
    if isinstance(payload, dict) and "class" in payload and "args" in payload:
        job = cast(JobPayload, payload)
        told |= about_payload(job)
        if arguments:
            told["args"] = arguments_of(job)
    elif payload is not None:
        told[_PAYLOAD] = payload
    if arguments and _PAYLOAD_BYTES in fields:
        told[_PAYLOAD_BYTES] = fields[_PAYLOAD_BYTES]
    return told


def size_of(job: JobContext) -> int:
    """How many bytes a job has in Redis."""
    return len(job.raw or encode(cast("Mapping[str, Any]", job.payload)))


def shown(value: object) -> str:
    """``str(value)``, also of an object that refuses."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a user's object may do anything
        return f"<{type(value).__name__}>"


_ENCODER = json.JSONEncoder(default=shown, allow_nan=False)


def _encoder() -> Callable[[Mapping[str, object]], str]:
    """`_ENCODER.encode` without its making an encoder in C for each line; a cycle ends in RecursionError."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # a Python without that part in C
        return _ENCODER.encode
    quote = json.encoder.encode_basestring_ascii  # pyright: ignore[reportAttributeAccessIssue]
    chunks = make(None, shown, quote, None, ": ", ", ", False, False, False)
    return lambda entry: "".join(chunks(entry, 0))


_encode = _encoder()


def line_of(entry: Mapping[str, object]) -> str:
    """A flat object as one line of JSON, at most about `MOST_CHARACTERS` long."""
    try:
        line = _encode(entry)
    except (ValueError, TypeError, RecursionError):  # NaN, a cycle, keys that are no text
        line = ""
    for most in _CUTS if not line or len(line) > MOST_CHARACTERS or _has_lone_surrogate(line) else ():
        line = _encode(bounded(entry, most))
        if len(line) <= MOST_CHARACTERS:
            return line
    return line if len(line) <= MOST_CHARACTERS else _encode(_first_fields(entry))


def _has_lone_surrogate(line: str) -> bool:
    r"""Whether a line has half a character, such as ``\ud800``, which JSON allows and most readers refuse."""
    return "\\ud" in line and _LONE_SURROGATE.search(line.replace("\\\\", "")) is not None


def _first_fields(entry: Mapping[str, object]) -> dict[str, object]:
    """As many of the fields as fit; who the line is about comes first."""
    fields = bounded(entry, _CUTS[-1])
    ends_at = accumulate(len(_encode({name: value})) for name, value in fields.items())
    return {name: fields[name] for name, end in zip(fields, ends_at, strict=True) if end <= MOST_CHARACTERS}


def bounded(entry: Mapping[str, object], most: int) -> dict[str, object]:
    """The first 150 fields, with texts of at most ``most`` characters and nothing in them that JSON cannot carry."""
    return {_cut(shown(name), _MOST_NAME): _plain(value, most) for name, value in islice(entry.items(), _MOST_FIELDS)}


def _identity(payload: JobPayload, queue: str) -> dict[str, object]:
    fields: dict[str, object] = {"class": payload["class"], "jid": payload.get("jid", ""), "queue": queue}
    tags = payload.get("tags")
    if tags:
        fields["tags"] = tags
    return fields


def _plain(value: object, most: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < _LARGEST:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return [_cut(shown(item), min(most, _MOST_ITEM)) for item in items[:_MOST_ITEMS]]
    return _cut(shown(value), most)


def _cut(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")
