"""Jobs requeued by parent processes, for the event ``job_reclaimed``: a parent runs no application code.

The first process that takes a job from the list emits its event. The list holds up to 1,000 jobs, for a day.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from offsider.core.payload import decode_or_none, encode
from offsider.storage.redis import Redis

MAX_JOBS = 1_000
#: Larger payloads are stored without their arguments.
MAX_BYTES = 16_384
KEEP_SECONDS = 24 * 60 * 60


class Rescued(NamedTuple):
    """A requeued job of the dead process ``identity``."""

    raw: bytes
    queue: str
    identity: str
    interrupted_count: int


def note(redis: Redis, jobs: Iterable[Rescued]) -> None:
    """Store jobs for `take`."""
    noted = [json.dumps(job[1:]).encode() + b"\n" + _bounded(job.raw) for job in jobs]
    if noted:
        key = redis.keys.rescued
        redis.pipeline(
            [("RPUSH", key, *noted[-MAX_JOBS:]), ("LTRIM", key, -MAX_JOBS, -1), ("EXPIRE", key, KEEP_SECONDS)]
        )


def take(redis: Redis, limit: int = 100) -> Sequence[Rescued]:
    """Remove and return up to ``limit`` jobs, oldest first."""
    return [_read(stored) for stored in redis.call("LPOP", redis.keys.rescued, limit) or ()]


def _read(stored: bytes) -> Rescued:
    head, _, raw = stored.partition(b"\n")
    return Rescued(raw, *json.loads(head))


def _bounded(raw: bytes) -> bytes:
    if len(raw) <= MAX_BYTES:
        return raw
    payload = decode_or_none(raw)
    if payload is None:
        return raw[:MAX_BYTES]
    payload["args"] = []
    payload.pop("kwargs", None)
    return encode(payload)
