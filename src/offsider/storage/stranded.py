"""Stranded jobs: no live worker can run them. They wait in the schedule, with ``stranded_at`` in the payload.

``offsider:stranded`` stores a reason per class, and exists only while jobs are stranded: a starting worker then scans
for them. ``offsider:stranded:counts`` is a counter per class. The jobs themselves are due within `MAX_DELAY_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsider.core.payload import JobPayload, read_stamp
from offsider.storage import clocks, hashes, job_sets
from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

NOTE_STRANDED = Script("note_stranded")

#: Maximum delay of a stranded job until its next attempt.
MAX_DELAY_SECONDS = 360.0
#: Reasons expire after this time without a new one; every stranded job is attempted more often.
EXPIRY_SECONDS = 900
#: Expiry of a hand-over count, from the first hand-over of an attempt.
HANDED_ON_SECONDS = 3600
_MAX_CLASSES = 500
#: Allowed difference between the clocks of workers and server.
_SLACK_SECONDS = 60.0


def note(redis: Redis, name: str, reason: str) -> None:
    """Store why a job of this class was stranded, and count it; up to 500 classes."""
    keys = [redis.keys.stranded, redis.keys.stranded_counts]
    redis.run(NOTE_STRANDED, keys, [name, reason, EXPIRY_SECONDS, _MAX_CLASSES])


def is_any(redis: Redis) -> bool:
    """Whether a job was stranded within the last 15 minutes."""
    return bool(redis.call("EXISTS", redis.keys.stranded))


def reasons(redis: Redis) -> dict[str, str]:
    """The latest reason per class."""
    return dict(hashes.texts(redis.call("HGETALL", redis.keys.stranded)))


def counts(redis: Redis) -> dict[str, int]:
    """Total times that jobs of each class were stranded; each attempt counts."""
    return hashes.wholes(redis.call("HGETALL", redis.keys.stranded_counts))


def count_hand_over(redis: Redis, jid: str, retry: int) -> tuple[int, float]:
    """Count a hand-over of a job to other workers.

    Args:
        retry: the retry count of the job; each attempt has a count of its own.

    Returns:
        The number of hand-overs, including this one, and the seconds since the first.
    """
    key = redis.keys.handed_on(jid, str(retry))
    commands = [("SET", key, 0, "EX", HANDED_ON_SECONDS, "NX"), ("INCR", key), ("PTTL", key)]
    _, count, left_ms = redis.pipeline(commands)
    return count, HANDED_ON_SECONDS - left_ms / 1000


def stranded_since(payload: JobPayload) -> float | None:
    """When a job was first stranded, in epoch seconds; None if it is not stranded, or has run since."""
    since = read_stamp(payload.get("stranded_at"))
    ran_at = read_stamp(payload.get("retried_at", payload.get("failed_at")))
    return None if since is None or (ran_at is not None and ran_at > since) else since


def each(redis: Redis) -> Iterator[bytes]:
    """Iterate over the part of the schedule that holds stranded jobs, by due time; other jobs are included."""
    until = clocks.look(redis)[0] + MAX_DELAY_SECONDS + _SLACK_SECONDS
    for raw, due_at in job_sets.each(redis, redis.keys.schedule):
        if due_at > until:
            return
        yield raw


def hasten(redis: Redis, members: Sequence[bytes]) -> int:
    """Make schedule entries due now, by the server's clock; returns the number of entries changed.

    An entry that was removed is not restored, and one that is already due keeps its position.
    """
    now = repr(clocks.look(redis)[0])
    pairs = [item for member in members for item in (now, member)]
    return int(redis.call("ZADD", redis.keys.schedule, "XX", "LT", "CH", *pairs))
