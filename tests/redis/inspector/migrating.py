"""Two servers, declared jobs, and rules that want them elsewhere, for the tests of migrations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import redis

from offsider.config.config import Config

RULES = [["urgency=high", "urgent"], ["tags=bulk", "slow", "bulk"], ["*", "default"]]
JOBS = """
from offsider import job

@job(name="shop.mail", aliases=["mail"], urgency="high")
def mail(*args): ...

@job(name="shop.report", tags=["bulk"])
def report(*args): ...

@job(name="shop.rest")
def rest(*args): ...
"""


def two_servers(url: str, other_url: str) -> Config:
    """``main`` and ``bulk``: two servers that share nothing."""
    config = Config()
    config.redis.url = url
    config.add_server("bulk", url=other_url)
    config.routing.rules = RULES
    return config


def raw_job(name: str, number: int, queue: str = "old", **more: object) -> bytes:
    payload = {"class": name, "args": [number], "jid": f"{number:024x}", "queue": queue, "retry": True, **more}
    return json.dumps(payload).encode()


def push(client: redis.Redis, queue: str, raws: Sequence[bytes]) -> None:
    """As any client does it; the first runs first."""
    client.sadd("queues", queue)
    client.lpush(f"queue:{queue}", *raws)


def in_queue(client: redis.Redis, queue: str) -> list[tuple[str, int]]:
    """The jobs in the order in which they run."""
    return [_told(raw) for raw in reversed(client.lrange(f"queue:{queue}", 0, -1))]


def in_set(client: redis.Redis, name: str) -> dict[tuple[str, int, str], float]:
    """Jobs and the queues that they name, with their scores."""
    found = client.zrange(name, 0, -1, withscores=True)
    return {(*_told(raw), json.loads(raw)["queue"]): score for raw, score in found}


def every_job(*clients: redis.Redis) -> Counter[tuple[str, int]]:
    """All that is stored anywhere, jobs in transit included."""
    found: Counter[tuple[str, int]] = Counter()
    for client in clients:
        for key in client.scan_iter():
            kind = client.type(key)
            if kind == b"list":
                found.update(_told(raw) for raw in client.lrange(key, 0, -1))
            elif kind == b"zset" and key in (b"schedule", b"retry"):
                found.update(_told(raw) for raw in client.zrange(key, 0, -1))
    return found


def _told(raw: bytes) -> tuple[str, int]:
    job: Any = json.loads(raw[raw.index(b"{") :])
    return job["class"], job["args"][0]
