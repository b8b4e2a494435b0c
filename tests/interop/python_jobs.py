"""The Python jobs: the application that the worker of the interop tests loads with ``-r python_jobs``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar

import redis

from offsider import Config, IterableJob, JobContext, Middleware, current_job, job
from offsider.ext.current_attributes import CurrentAttributes
from offsider.ext.profiles import Profiles


class Current:
    """The same attributes as Ruby's class Current of app.rb."""

    user_id: ContextVar[object] = ContextVar("user_id", default=None)
    role: ContextVar[object] = ContextVar("role", default=None)
    since: ContextVar[object] = ContextVar("since", default=None)
    lasts: ContextVar[object] = ContextVar("lasts", default=None)
    price: ContextVar[object] = ContextVar("price", default=None)
    options: ContextVar[object] = ContextVar("options", default=None)


store = redis.Redis.from_url(os.environ["REDIS_URL"])


def configure(config: Config) -> None:
    config.use(CurrentAttributes(Current))
    config.use(Profiles())
    config.server_middleware.add(recorded)


def recorded(context: JobContext) -> Middleware:
    """Note each run as Ruby's side does: seen:<jid> holds [language, arguments, retry_count]."""
    seen = ["python", context.payload["args"], context.retry_count]
    store.rpush(f"seen:{context.jid}", json.dumps(seen))
    yield


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


@job(name="RubyTellsCurrent", queue="ruby")
def ruby_tells_current(of: str = "") -> None:
    """It lives in Ruby."""


@job(name="PythonTellsCurrent", queue="python")
def python_tells_current() -> None:
    """Notes the current attributes that it sees, and pushes a job to Ruby, which does the same."""
    attributes = {
        name: repr(variable.get()) for name, variable in vars(Current).items() if isinstance(variable, ContextVar)
    }
    store.set(f"current:{current_job().jid}", json.dumps(attributes))
    ruby_tells_current.enqueue(current_job().jid)


class Elements(IterableJob, name="Elements", queue="elements"):
    """Declared in both languages: each continues at the cursor where the other has stopped."""

    def build_enumerator(self, count: int, pause: float, *, cursor: int | None) -> Iterator[tuple[int, int]]:
        return ((number, number) for number in range(cursor or 0, count))

    def each_iteration(self, number: int, count: int, pause: float) -> None:
        store.rpush(f"elements:{self.jid}", f"python {number}")
        time.sleep(pause)
