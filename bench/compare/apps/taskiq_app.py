"""Taskiq on a Redis stream, its fastest broker that acknowledges, without a result backend."""

from __future__ import annotations

import os
from collections.abc import Iterator

import probe
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(os.environ["REDIS_URL"])


@broker.task(task_name="noop")
async def noop(number: int, *rest: object) -> None:
    await probe.arun(number, *rest)


async def push(numbers: Iterator[int]) -> None:
    await broker.startup()
    for number in numbers:
        await noop.kiq(number, "two", 3)
    await broker.shutdown()
