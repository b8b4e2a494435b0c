"""Further lists where jobs lie: those of extensions, beside the queues, the sets and the private lists.

A script that puts a job into a list of its own notes the list's key in one set, before it does so. Whoever looks for
jobs looks there too: a job in such a list is not lost, and its lock must not be freed. Nobody has to know which
extension the list belongs to.

Such a list has the form of a queue: new jobs come in at the left, the next one is at the right, and each element is a
payload as it would lie in its queue, whose field ``queue`` says where it belongs.
"""

from __future__ import annotations

from offsider.storage.redis import Redis


def keys_of(redis: Redis) -> list[str]:
    """The keys of all such lists, sorted; some may be empty by now."""
    return sorted(key.decode() for key in redis.call("SMEMBERS", redis.keys.places))


def lengths(redis: Redis) -> dict[str, int]:
    """How many jobs each of these lists holds, empty ones left out."""
    keys = keys_of(redis)
    replies = redis.pipeline([("LLEN", key) for key in keys]) if keys else []
    return {key: int(length) for key, length in zip(keys, replies, strict=True) if length}
