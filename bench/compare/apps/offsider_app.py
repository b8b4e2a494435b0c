"""offsider: threads in one process, jobs acknowledged after the run."""

from __future__ import annotations

from collections.abc import Iterator

import probe

from offsider import job


@job(name="noop")
def noop(number: int, *rest: object) -> None:
    probe.run(number, *rest)


def push(numbers: Iterator[int]) -> None:
    for number in numbers:
        noop.enqueue(number, "two", 3)


async def apush(numbers: Iterator[int]) -> None:
    for number in numbers:
        await noop.aenqueue(number, "two", 3)


def push_bulk(numbers: Iterator[int]) -> None:
    noop.enqueue_many((number, "two", 3) for number in numbers)
