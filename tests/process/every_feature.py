"""An application that uses every feature which stores something. Tests start it in other processes only."""

from __future__ import annotations

import time
from datetime import timedelta

from offsider import Client, Config, configure_client, current_job, job
from offsider.config.default import default_config
from offsider.ext.batches import RESULT, Batch, Batches, chain
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiter, Limiters
from offsider.ext.periodic import Periodic
from offsider.ext.results import Results
from offsider.ext.unique import Unique

LIMITERS = (
    Limiter.concurrent("pool", 3),
    Limiter.bucket("calendar", 100, "day"),
    Limiter.window("sliding", 100, "day"),
    Limiter.leaky("burst", 100, "day"),
    Limiter.points("costs", 100, 1.0),
)
periodic = Periodic()


@configure_client
def configure(config: Config) -> None:
    for extension in (Batches(), ConcurrencyLimits(), Limiters(), Results(), Unique(), periodic):
        config.use(extension)


@job(name="every.plain", urgency="high", feature_category="shop")
def plain(value: int = 1) -> int:
    return value


@job(name="every.limited")
def limited() -> None:
    for limiter in LIMITERS:
        if limiter.kind == "points":
            with limiter.within_limit(estimate=1):
                pass
        else:
            with limiter.within_limit():
                pass


@job(name="every.failing", retry=3, backtrace=True)
def failing() -> None:
    raise ValueError("no price")


@job(name="every.dying", retry=0)
def dying() -> None:
    raise KeyError("gone")


@job(name="every.tracked", track="arguments", keep_result=60)
def tracked(value: int) -> int:
    current_job().progress(1, 2, "half")
    return value


@job(name="every.expired", expires_in=0.001)
def expired() -> None: ...


@job(name="every.one_by_one", concurrency_limit=1, rate_limit="100/day")
def one_by_one(customer: int) -> None: ...


@job(name="every.keyed", concurrency_limit=1, key=lambda customer: customer)
def keyed(customer: int) -> None: ...


@job(name="every.unique", unique_for=60)
def unique(number: int) -> None: ...


@job(name="every.throttled", throttle=60)
def throttled() -> None: ...


@job(name="every.debounced", debounce=1)
def debounced() -> None: ...


@job(name="every.waiting", track=True)
def waiting() -> None:
    """Run until it is cancelled or the worker stops."""
    while not (current_job().stopping or current_job().cancelled):
        time.sleep(0.01)


@job(name="every.dropped")
def dropped() -> None: ...


@job(name="every.callback")
def callback(bid: str, options: object) -> None: ...


periodic.register("0 3 * * *", plain, name="nightly")
periodic.register(job=plain, every=1, name="often")


def push_all() -> None:
    """Push a job of every kind."""
    for one in (plain, limited, failing, dying, expired, throttled, debounced, dropped, waiting):
        one.enqueue()
    for number in (1, 2):
        for each in (tracked, one_by_one, keyed, unique):
            each.enqueue(number)
    plain.enqueue_in(timedelta(hours=1), 7)
    with Batch(description="all", tags=["a"], data={"b": 1}) as batch:
        batch.on("success", callback).on("complete", callback).on("death", callback)
        plain.enqueue(2)
        dying.enqueue()
    with Batch(description="fine") as batch:
        batch.on("success", callback)
        plain.enqueue(3)
    chain(plain.call(4), tracked.call(RESULT)).enqueue()
    Client(default_config()).push({"class": "every.unknown", "args": [1]})
