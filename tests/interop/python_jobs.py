"""The jobs that live in Python: what the worker of the interop tests loads with ``-r python_jobs``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import redis

from offsider import Config, JobContext, current_job, job

store = redis.Redis.from_url(os.environ["REDIS_URL"])


def configure(config: Config) -> None:
    config.server_middleware.add(recorded)


def recorded(context: JobContext, call_next: Callable[[JobContext], object]) -> object:
    """Note each run as Ruby's side does: seen:<jid> holds [language, arguments, retry_count]."""
    seen = ["python", context.payload["args"], context.retry_count]
    store.rpush(f"seen:{context.jid}", json.dumps(seen))
    return call_next(context)


@job(name="HardJob", queue="python")
def hard_job(*args: object) -> None:
    pass


@job(name="PythonFail", queue="python")
def python_fail(*args: object) -> None:
    raise LookupError("boom é <b>x</b> from Python")


@job(name="FailsEverywhere", queue="python")
def fails_everywhere(*args: object) -> None:
    raise KeyError("from Python")


@job(name="WaitsForRelease", queue="python")
def waits_for_release(*args: object) -> None:
    """Runs until the key ``release`` is there; a run after an interruption ends at once."""
    store.rpush("interrupted_counts", current_job().interrupted_count)
    while not current_job().interrupted_count and not store.exists("release"):
        time.sleep(0.02)
