"""Jobs that no live worker can run: they lie in the schedule, with a key of their own in the payload.

``offsider:parked`` says which jobs workers wanted to run lately and could not, by name and signature, so that a worker
that can knows at its start without reading the schedule; it expires when nobody parks any more.
``offsider:parked:counts`` only grows. The jobs themselves are all due within `LONGEST_SECONDS`.

Whoever has looked through them notes it in ``offsider:parked:walked:<group>``, for all workers that can run the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from offsider.core.payload import JobPayload, read_stamp
from offsider.storage import clocks, job_sets
from offsider.storage.redis import Redis

#: The longest that a parked job waits for its next try.
LONGEST_SECONDS = 360.0
#: What was not wanted for so long is parked no more: each parked job is tried more often than that.
EXPIRY_SECONDS = 900
_MOST = 500
#: In the bytes of every parked job, and of few others.
_MARK = b'"parked_at"'
#: Clocks of workers and server may differ by so much.
_SLACK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a worker must be able to run: a job's name, and the digest of its signature (empty when nobody told)."""

    name: str
    signature: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The last such job.

    Attributes:
        at: when it was parked, in epoch seconds.
        queue: where it was taken from.
        reason: why the worker could not run it.
    """

    at: float
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class Walk:
    """The last look through parked jobs by workers of one group.

    Attributes:
        sought: what was known of parked jobs when it began; empty when it did not come to the end.
        fruitless: how many in a row have found nothing, or did not come to the end.
        rest_until: none is worth while before, in epoch seconds of the server.
    """

    sought: str = ""
    fruitless: int = 0
    rest_until: float = 0.0


def note(redis: Redis, wanted: Wanted, seen: Seen, count: int) -> None:
    """Tell of ``count`` more parked jobs of a kind. Of more than 500 kinds the further ones are left out."""
    keys, field = redis.keys, _field(wanted)
    told, kinds, counted, classes = redis.pipeline(
        [
            ("HEXISTS", keys.parked, field),
            ("HLEN", keys.parked),
            ("HEXISTS", keys.parked_counts, wanted.name),
            ("HLEN", keys.parked_counts),
        ]
    )
    if told or kinds < _MOST:
        value = json.dumps([seen.at, seen.queue, seen.reason], ensure_ascii=False, separators=(",", ":"))
        redis.pipeline([("HSET", keys.parked, field, value), ("EXPIRE", keys.parked, EXPIRY_SECONDS)])
    if counted or classes < _MOST:
        redis.call("HINCRBY", keys.parked_counts, wanted.name, count)


def kinds(redis: Redis) -> dict[Wanted, Seen]:
    """What was wanted within the last quarter of an hour."""
    reply: list[bytes] = redis.call("HGETALL", redis.keys.parked)
    read = ((_wanted(field), _seen(value)) for field, value in zip(reply[::2], reply[1::2], strict=True))
    return {wanted: seen for wanted, seen in read if wanted is not None and seen is not None}


def forget(redis: Redis, wanted: Wanted) -> None:
    """No such job is parked any more."""
    redis.call("HDEL", redis.keys.parked, _field(wanted))


def last_walk(redis: Redis, group: str) -> Walk:
    """The last look of a group within a quarter of an hour."""
    told = _list(redis.call("GET", redis.keys.parked_walk(group)) or b"", 3)
    if told is None or not isinstance(told[1], int) or not isinstance(told[2], int | float):
        return Walk()
    return Walk(str(told[0]), told[1], float(told[2]))


def note_walk(redis: Redis, group: str, walk: Walk) -> None:
    """Tell the others of a group of a look."""
    value = json.dumps([walk.sought, walk.fruitless, walk.rest_until], separators=(",", ":"))
    redis.call("SET", redis.keys.parked_walk(group), value, "EX", EXPIRY_SECONDS)


def counts(redis: Redis) -> dict[str, int]:
    """How often jobs of each class were parked, ever; each new try counts."""
    reply: list[bytes] = redis.call("HGETALL", redis.keys.parked_counts)
    return {name.decode("utf-8", "replace"): int(count) for name, count in zip(reply[::2], reply[1::2], strict=True)}


def wanted_by(payload: JobPayload) -> Wanted:
    """What a worker must be able to run for a job."""
    signature: object = payload.get("signature")
    return Wanted(payload["class"], signature if isinstance(signature, str) else "")


def parked_since(payload: JobPayload) -> float | None:
    """Since when nobody could run a job, in epoch seconds; None when that is not so."""
    return read_stamp(payload.get("parked_at"))


def is_parked(raw: bytes) -> bool:
    """Whether these may be the bytes of a parked job; to be decoded, who has to know."""
    return _MARK in raw


def each(redis: Redis) -> Iterator[bytes]:
    """What the schedule holds where parked jobs lie, others among them: who is due next comes first; read in pages."""
    until = clocks.look(redis)[0] + LONGEST_SECONDS + _SLACK_SECONDS
    for raw, due_at in job_sets.each(redis, redis.keys.schedule):
        if due_at > until:
            return
        yield raw


def hasten(redis: Redis, members: Sequence[bytes]) -> int:
    """Make members of the schedule due now, by the server's clock; answers how many were still to come.

    One that is gone is not brought back, and one that is due already keeps its place.
    """
    now = repr(clocks.look(redis)[0])
    pairs = [item for member in members for item in (now, member)]
    return int(redis.call("ZADD", redis.keys.schedule, "XX", "LT", "CH", *pairs))


def _field(wanted: Wanted) -> str:
    return json.dumps([wanted.name, wanted.signature], ensure_ascii=False, separators=(",", ":"))


def _wanted(field: bytes) -> Wanted | None:
    told = _list(field, 2)
    return None if told is None else Wanted(str(told[0]), str(told[1]))


def _seen(value: bytes) -> Seen | None:
    told = _list(value, 3)
    if told is None or not isinstance(told[0], int | float):
        return None
    return Seen(float(told[0]), str(told[1]), str(told[2]))


def _list(raw: bytes, length: int) -> list[object] | None:
    try:
        told: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, list):
        return None
    items = cast("list[object]", told)
    return items if len(items) == length else None
