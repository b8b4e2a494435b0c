"""A stored job as plain values, for pages and JSON.

Lists cut each text at 2,048 characters, so that a page of jobs with megabytes of arguments stays small.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from offsider.config.addresses import job_path, queue_path, stored_job_path
from offsider.inspector import JobRecord
from offsider.inspector.search import HELD
from offsider.screens.plain import LINE_LETTERS, MAX_LETTERS, cut, moment
from offsider.screens.redaction import Redact, Redacted

#: Maximum characters of a text on the page of a job.
MAX_ON_PAGES = 100_000
MAX_TAGS = 20
_LONGEST_LINK = 200

_COMPACT = json.JSONEncoder(ensure_ascii=False)
_PRETTY = json.JSONEncoder(ensure_ascii=False, indent=2)


def shown(record: JobRecord, redacted: Redacted, *, where: str, key: str) -> dict[str, Any]:
    """Return a job for a list.

    Args:
        record: the job.
        redacted: what to show of it, see `listed_job`.
        where: its set or queue: ``retry``, ``schedule``, ``dead``, ``busy`` or ``queue:<name>``.
        key: its key there.
    """
    unlisted_bytes = record.unlisted_bytes
    return {
        "key": key,
        "where": HELD if where.startswith(HELD) else where,
        "path": path_of(record, where, key),
        "jid": cut(record.jid, MAX_LETTERS),
        "name": cut(record.display_class, MAX_LETTERS),
        "queue": cut(record.queue, MAX_LETTERS),
        "queue_path": queue_path(record.queue) if 0 < len(record.queue) <= _LONGEST_LINK else "",
        "args": "" if unlisted_bytes else one_line(record, redacted, MAX_LETTERS),
        "unlisted_bytes": unlisted_bytes,
        "tags": [cut(redacted.value(tag), LINE_LETTERS) for tag in islice(record.tags, MAX_TAGS)],
        "caller": cut(redacted.value(record.caller or ""), MAX_LETTERS),
        "error": shown_error(record, redacted),
        "retry_count": record.retry_count,
        "created_at": moment(record.created_at),
        "enqueued_at": moment(record.enqueued_at),
        "failed_at": moment(record.failed_at),
        "retried_at": moment(record.retried_at),
        "expires_at": moment(record.expires_at),
        "malformed": record.malformed,
        "size_bytes": len(record.unwrapped),
    }


def path_of(record: JobRecord, where: str, key: str) -> str:
    """Return the address of a job; without the name of a held list, which may be an argument."""
    return job_path(record.jid) if where.startswith(HELD) and record.jid else stored_job_path(where, key)


def shown_error(record: JobRecord, redacted: Redacted) -> dict[str, str] | None:
    """Return class and message of the last error; None if it has not failed."""
    if not record.error_class and not record.error_message:
        return None
    error_class, message = record.error_class, redacted.message(record.error_message)
    whole = f"{error_class}: {message}" if error_class and message else error_class or message
    return {
        "class": cut(error_class, MAX_LETTERS),
        "message": cut(message, MAX_LETTERS),
        "short": cut(" ".join(whole[:MAX_LETTERS].split()), LINE_LETTERS),
    }


def one_line(record: JobRecord, redacted: Redacted, most: int) -> str:
    """Return the arguments as JSON, keyword arguments as ``name=…``; bytes that are not a job stay unchanged."""
    args, kwargs = redacted.args, redacted.kwargs
    if record.malformed:
        return cut("".join(map(str, args)), most)
    parts = [*([value] for value in args), *((f"{name}=", value) for name, value in kwargs.items())]
    text = ""
    for part in parts:
        *name, value = part
        text += (", " if text else "") + "".join(name) + start_of(value, most - len(text) + 1)
        if len(text) > most:
            break
    return cut(text, most)


def redacted_job(record: JobRecord, redact: Redact | None) -> Redacted:
    """Redact a job. Bytes that are not a job have one argument, their first characters."""
    if record.malformed:
        return Redacted.of(redact, "", [record.unwrapped[: MAX_ON_PAGES * 4].decode(errors="replace")], {})
    return Redacted.of(redact, record.display_class, record.display_args, record.kwargs)


def listed_job(record: JobRecord, redact: Redact | None) -> Redacted:
    """Redact a job for a list.

    Arguments that lists do not show are not expanded, so texts that may quote them are hidden if there is a ``redact``.
    """
    if record.unlisted_bytes:
        return Redacted([], {}, changed=redact is not None, secrets=None)
    return redacted_job(record, redact)


def start_of(value: object, most: int, *, pretty: bool = False) -> str:
    """Return the first characters of a value as JSON, without encoding all of a large value."""
    pieces: list[str] = []
    left = most
    try:
        for piece in (_PRETTY if pretty else _COMPACT).iterencode(value):
            pieces.append(piece)
            left -= len(piece)
            if left <= 0:
                break
    except RecursionError:
        pieces.append("…")
    return "".join(pieces)[:most]
