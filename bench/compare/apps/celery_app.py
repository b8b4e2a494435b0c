"""Celery with the settings its guide gives for many short tasks: no results, a larger prefetch."""

from __future__ import annotations

import os
from collections.abc import Iterator

import probe
from celery import Celery

app = Celery("bench", broker=os.environ["REDIS_URL"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(number: int, *rest: object) -> None:
    probe.run(number, *rest)


def push(numbers: Iterator[int]) -> None:
    for number in numbers:
        noop.delay(number, "two", 3)
