"""offsider: threads in one process, jobs acknowledged after the run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import probe

from offsider import Client, Config, job

config = Config()
config.redis.url = os.environ["REDIS_URL"]
client = Client(config)


@job(name="noop", client=client)
def noop(number: int, *rest: object) -> None:
    probe.run(number, *rest)


def push(numbers: Iterator[int]) -> None:
    for number in numbers:
        noop.enqueue(number, "two", 3)


def apush(numbers: Iterator[int]) -> None:
    async def push_all() -> None:
        for number in numbers:
            await noop.aenqueue(number, "two", 3)

    asyncio.run(push_all())


def push_bulk(numbers: Iterator[int]) -> None:
    noop.enqueue_many((number, "two", 3) for number in numbers)
