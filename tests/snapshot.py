"""All data of a server as plain Python values: seed, call one verb, compare with the expected data.

Without the registry of clients: each client registers itself beside its jobs.
"""

from __future__ import annotations

from typing import Any

import redis


def snapshot(client: redis.Redis) -> dict[str, Any]:
    """Key -> value: a list, a set, a dict of member -> score, a dict of field -> value, or bytes."""
    readers: dict[bytes, Any] = {
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: dict(client.zrange(key, 0, -1, withscores=True)),
        b"hash": client.hgetall,
        b"string": client.get,
    }
    keys = sorted(key for key in client.scan_iter() if not key.endswith(b"offsider:clients"))
    return {key.decode(): readers[client.type(key)](key) for key in keys}
