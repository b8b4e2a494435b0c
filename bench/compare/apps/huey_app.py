"""Huey on Redis without results."""

from __future__ import annotations

import os
from collections.abc import Iterator

import probe
from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["REDIS_URL"], results=False)


@huey.task(name="noop")
def noop(number: int, *rest: object) -> None:
    probe.run(number, *rest)


def push(numbers: Iterator[int]) -> None:
    for number in numbers:
        noop(number, "two", 3)
