"""A look at a few stored jobs of each kind, for checks that must stay cheap however much is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

MOST_QUEUES = 50


def stored_payloads(redis: Redis, queues: Sequence[str], *, limit: int) -> list[bytes]:
    """The next jobs of some queues, and of the schedule and the retry set: at most ``limit`` from each."""
    keys = redis.keys
    commands: list[Command] = [("LRANGE", keys.queue(queue), -limit, -1) for queue in queues[:MOST_QUEUES]]
    commands += [("ZRANGE", key, 0, limit - 1) for key in (keys.schedule, keys.retry)]
    replies = redis.pipeline(commands, raise_errors=False)
    return [raw for reply in replies if isinstance(reply, list) for raw in cast("list[bytes]", reply)]
