"""Stored data in Redis, seeded and read by the tests of processes with redis-py alone."""

from __future__ import annotations

import json
from typing import Any

import redis

from offsider.core.payload import encode, new_jid


def payload(name: str, *args: Any, queue: str = "default", **fields: Any) -> dict[str, Any]:
    return {"class": name, "args": list(args), "jid": new_jid(), "queue": queue, "retry": True, **fields}


def push(client: redis.Redis, name: str, *args: Any, queue: str = "default", **fields: Any) -> str:
    """Store a job; returns its jid."""
    job = payload(name, *args, queue=queue, **fields)
    push_raw(client, encode(job), queue=queue)
    return job["jid"]


def push_raw(client: redis.Redis, *raws: bytes, queue: str = "default") -> None:
    """Store bytes as they are."""
    client.sadd("queues", queue)
    client.lpush(f"queue:{queue}", *raws)


def waiting(client: redis.Redis, queue: str = "default") -> list[dict[str, Any]]:
    """The jobs of a queue, the next one first."""
    return [json.loads(raw) for raw in reversed(client.lrange(f"queue:{queue}", 0, -1))]


def private(client: redis.Redis) -> list[bytes]:
    """All jobs in private lists."""
    keys = client.scan_iter("offsider:working:*", count=1000)
    return [raw for key in keys for raw in client.lrange(key, 0, -1)]


def sorted_set(client: redis.Redis, name: str) -> list[dict[str, Any]]:
    """The jobs of ``retry``, ``schedule`` or ``dead``."""
    return [json.loads(raw) for raw in client.zrange(name, 0, -1)]
