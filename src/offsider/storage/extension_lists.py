"""Lists of extensions that contain jobs, in addition to queues, job sets and private lists.

A script of an extension that stores a job in its own list first adds the list's key to a set. Code that searches for
jobs reads these lists too: their jobs are not lost, and their locks must stay. It need not know the extension.

Such a list has the format of a queue: new jobs are pushed on the left, the next job is on the right. Each element is
the payload of a queue, and its field ``queue`` names that queue.
"""

from __future__ import annotations

from offsider.storage.redis import Redis


def keys_of(redis: Redis) -> list[str]:
    """Return the keys of all such lists, sorted; lists can be empty."""
    return sorted(key.decode() for key in redis.call("SMEMBERS", redis.keys.places))


def lengths(redis: Redis) -> dict[str, int]:
    """Return the length of each list that is not empty."""
    keys = keys_of(redis)
    replies = redis.pipeline([("LLEN", key) for key in keys]) if keys else []
    return {key: int(length) for key, length in zip(keys, replies, strict=True) if length}
