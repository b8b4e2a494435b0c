"""SAQ on Redis, finished jobs deleted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import probe
from saq import Queue

queue = Queue.from_url(os.environ["REDIS_URL"])


async def noop(_context: dict[str, Any], *, number: int, word: str, last: int) -> None:
    await probe.arun(number, word, last)


settings = {"queue": queue, "functions": [noop], "concurrency": int(os.environ.get("BENCH_CONCURRENCY", "10"))}


async def push(numbers: Iterator[int]) -> None:
    await queue.connect()
    for number in numbers:
        await queue.enqueue("noop", number=number, word="two", last=3, ttl=-1)
    await queue.disconnect()
