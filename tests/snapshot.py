"""All data of a server as plain Python values: seed, call one verb, compare with the expected data."""

from __future__ import annotations

from typing import Any

import redis

BESIDE = ("offsider:clients", "offsider:events")


def snapshot(client: redis.Redis) -> dict[str, Any]:
    """Return key -> value without the registry of clients and the event log: they are written beside the jobs."""
    return {key: value for key, value in everything(client).items() if not key.endswith(BESIDE)}


def everything(client: redis.Redis) -> dict[str, Any]:
    """Return key -> value: a list, a set, a dict of member -> score, a dict of field -> value, bytes, or events."""
    keys = sorted(client.scan_iter(count=1000))
    with client.pipeline(transaction=False) as pipeline:
        readers: dict[bytes, Any] = {
            b"list": lambda key: pipeline.lrange(key, 0, -1),
            b"set": pipeline.smembers,
            b"zset": lambda key: pipeline.zrange(key, 0, -1, withscores=True),
            b"hash": pipeline.hgetall,
            b"string": pipeline.get,
            b"stream": pipeline.xrange,
        }
        for key in keys:
            pipeline.type(key)
        kinds = {key: kind for key, kind in zip(keys, pipeline.execute(), strict=True) if kind != b"none"}  # expired
        for key, kind in kinds.items():
            readers[kind](key)
        values = zip(kinds.items(), pipeline.execute(), strict=True)
    return {key.decode(): dict(value) if kind == b"zset" else value for (key, kind), value in values}
