"""Demo application: the jobs of a small shop. Workers and the web UI load it with ``-r``.

For each order:

1. `confirm_order` runs for each item and pushes `check_stock`. The items form a batch with the callback `thank`.
2. `check_stock`, an ``async def``, asks three suppliers at the same time and pushes `charge_card`.
3. `charge_card` fails on its first attempt for every fifth item; the retry succeeds.
4. `PrintLabel` fails on every attempt for every eighth order and moves to the dead set.
5. `write_report` is scheduled for a second later. A rate limit allows 40 per second; results are kept for 10 minutes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from functools import cache
from pathlib import Path

from offsider import Config, Job, JobContext, JobPayload, Middleware, current_job, job
from offsider.cli.demo.ledger import Ledger
from offsider.client import Client
from offsider.core.job_id import JobId
from offsider.ext.batches import Batch, Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.results import Results

ITEMS = 6
SUPPLIER_SECONDS = (0.010, 0.020, 0.040)
REPORT_SECONDS = 0.2


def configure(config: Config) -> None:
    """Install the extensions and the ledger middleware, and stop this process when the demo ends."""
    use_extensions(config)
    config.server_middleware.add(record_run)
    threading.Thread(target=stop_with_the_demo, name="demo-parent", daemon=True).start()


def use_extensions(config: Config) -> None:
    """Install the extensions that the jobs need. The pushing process calls this, too."""
    for extension in (Batches(), ConcurrencyLimits(), Results()):
        config.use(extension)


def stop_with_the_demo() -> None:
    """Send TERM to this process when stdin closes, which happens even if the demo process is killed."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def record_run(job: JobContext) -> Middleware:
    """Record the start and the outcome of each run, before the worker reports it to the server."""

    def record(event: str) -> None:
        ledger().write(event, job.jid, job.name, job.attempt)

    record("began")
    try:
        yield
    except Exception:
        record("failed")
        raise
    record("done")


@cache
def ledger() -> Ledger:
    """The ledger in the current folder: workers of the demo run in the demo's folder."""
    return Ledger(Path())


def short_delay(count: int, error: BaseException, payload: JobPayload) -> float:  # noqa: ARG001  # the hook's signature
    """Seconds until the next attempt; the worker adds jitter."""
    return 0.5 + count / 2


@job(name="confirm_order", queue="orders")
def confirm_order(order: int, item: int) -> None:
    time.sleep(0.002)
    ledger().pushed(check_stock.enqueue(order, item))


@job(name="check_stock", queue="stock")
async def check_stock(order: int, item: int) -> None:
    await asyncio.gather(*map(asyncio.sleep, SUPPLIER_SECONDS))
    ledger().pushed(await charge_card.aenqueue(order, item))


@job(name="charge_card", queue="payments", retry=5, retry_in=short_delay)
def charge_card(order: int, item: int) -> None:
    if current_job().attempt == 1 and (order + item) % 5 == 0:
        raise ConnectionError("the bank did not answer")


class PrintLabel(Job, name="print_label", queue="labels", retry=1, retry_in=short_delay):
    """The label of an order."""

    def perform(self, order: int) -> None:
        if order % 8 == 0:
            raise LookupError(f"order {order} has no address")


@job(name="write_report", queue="reports", rate_limit="40/second", keep_result=600)
def write_report(order: int) -> str:
    time.sleep(REPORT_SECONDS)
    return f"{ITEMS} items of order {order}"


@job(name="thank", queue="orders")
def thank(bid: str, options: dict[str, int]) -> None:
    """Called when all items of an order are confirmed."""


def push_order(client: Client, ledger: Ledger, order: int) -> JobId[str] | None:
    """Push the jobs of one order and return the id of its report.

    Only pushes that the server acknowledged are recorded.
    """
    confirm = confirm_order.via(client)
    with Batch(description=f"Order {order}", config=client.config).on("success", thank, {"order": order}):
        items = confirm.enqueue_many(confirm.call(order, item) for item in range(ITEMS))
    ledger.pushed(*items)
    ledger.pushed(PrintLabel.via(client).enqueue(order))
    report = write_report.via(client).enqueue_in(1.0, order)
    ledger.pushed(report)
    return report
