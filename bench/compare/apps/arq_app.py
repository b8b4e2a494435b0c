"""arq with a short poll and no results kept; ``python -m arq_app`` is its worker, with its own logging left quiet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import probe
from arq import create_pool, func, run_worker
from arq.connections import RedisSettings

SERVER = RedisSettings.from_dsn(os.environ["REDIS_URL"])


async def noop(_context: dict[str, Any], number: int, *rest: object) -> None:
    await probe.arun(number, *rest)


class WorkerSettings:
    """Settings of the arq worker."""

    functions = (func(noop, name="noop", keep_result=0),)
    redis_settings = SERVER
    max_jobs = int(os.environ.get("BENCH_CONCURRENCY", "10"))
    poll_delay = 0.005
    queue_read_limit = 1000
    keep_result = 0


async def push(numbers: Iterator[int]) -> None:
    pool = await create_pool(SERVER)
    for number in numbers:
        await pool.enqueue_job("noop", number, "two", 3)
    await pool.aclose()


if __name__ == "__main__":
    run_worker(WorkerSettings)
