"""Enqueue times of the next job of each queue, without reading payloads of many megabytes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import cast

from offsider.core.errors import MalformedPayload, OffsiderError, RedisRefused
from offsider.core.payload import decode, read_stamp
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

OLDEST = Script("oldest")

_WHOLE_BYTES, _END_BYTES = 16_384, 4_096
_ARGUMENTS: tuple[Argument, ...] = (_WHOLE_BYTES, _END_BYTES)
#: Quotes inside of a string are escaped, so this is a key.
_STAMP = re.compile(rb'"enqueued_at": ?([0-9]{1,18}(?:\.[0-9]{1,18})?)')


def command(redis: Redis, names: Sequence[str]) -> Command:
    """Return the command, for use in a pipeline; `enqueued_at` parses the reply."""
    return OLDEST.by_hash([redis.keys.queue(name) for name in names], _ARGUMENTS)


def enqueued_at(redis: Redis, names: Sequence[str], reply: object = None) -> list[float | None]:
    """When the next job of each queue was enqueued, in epoch seconds; None if the queue is empty or it is unknown.

    Args:
        reply: the reply to `command`. Without one, or if the server did not know the script, a request is sent.
    """
    if reply is None or (isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT"):
        reply = redis.run(OLDEST, [redis.keys.queue(name) for name in names], _ARGUMENTS)
    if isinstance(reply, OffsiderError):
        raise reply
    return [_read(raw) for raw in cast("list[object]", reply)]


def _read(raw: object) -> float | None:
    if isinstance(raw, bytes):
        try:
            return read_stamp(decode(raw).get("enqueued_at"))
        except MalformedPayload:
            return None
    # Sidekiq and offsider write it after the arguments; other clients may write it before them.
    ends = cast("list[bytes]", raw) if isinstance(raw, list) else []
    stamps = [stamp for end in ends for stamp in _STAMP.findall(end)]
    return read_stamp(json.loads(stamps[-1])) if stamps else None
