"""Dramatiq with its default middleware; the prefetch is set in the worker's environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

import dramatiq
import probe
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ["REDIS_URL"]))


@dramatiq.actor(actor_name="noop")
def noop(number: int, *rest: object) -> None:
    probe.run(number, *rest)


def push(numbers: Iterator[int]) -> None:
    for number in numbers:
        noop.send(number, "two", 3)
