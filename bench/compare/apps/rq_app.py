"""RQ: one job at a time in each process, results deleted at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import probe
from redis import Redis
from rq import Queue

queue = Queue("bench", connection=Redis.from_url(os.environ["REDIS_URL"]))


def noop(number: int, *rest: object) -> None:
    probe.run(number, *rest)


def push(numbers: Iterator[int]) -> None:
    for number in numbers:
        queue.enqueue("rq_app.noop", args=(number, "two", 3), result_ttl=0)


def push_bulk(numbers: Iterator[int]) -> None:
    while batch := list(islice(numbers, 1000)):
        queue.enqueue_many(
            [Queue.prepare_data("rq_app.noop", args=(number, "two", 3), result_ttl=0) for number in batch]
        )
