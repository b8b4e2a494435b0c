"""Demo application: the jobs of a small shop. Workers and the web UI load it with ``-r``.

For each order:

1. `confirm_order` runs for each item and pushes `check_stock`.
2. `check_stock`, an ``async def``, asks three suppliers at the same time and pushes `charge_card`.
3. `charge_card` fails on its first attempt for every fifth item; the retry succeeds.
4. `print_label` fails on every attempt for every eighth order and moves to the dead set.
5. `write_report` is scheduled for a second later.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from functools import cache
from pathlib import Path

from offsider import Config, JobContext, JobPayload, Middleware, current_job, job
from offsider.cli.demo.ledger import Ledger
from offsider.client import Client

ITEMS = 6
SUPPLIER_SECONDS = (0.010, 0.020, 0.040)
REPORT_SECONDS = 0.2


def configure(config: Config) -> None:
    """Install the ledger middleware, and stop this process when the demo ends."""
    config.server_middleware.add(record_run)
    # A job that the dead set deletes to make room would count as lost; in an hour, 10,000 jobs die.
    config.worker.dead_max_jobs = 1_000_000
    threading.Thread(target=stop_with_the_demo, name="demo-parent", daemon=True).start()


def stop_with_the_demo() -> None:
    """Send TERM to this process when stdin closes, which happens even if the demo process is killed."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def record_run(job: JobContext) -> Middleware:
    """Record the start and the outcome of each run, before the worker reports it to the server."""
    ledger().write("began", job.jid, job.attempt)
    try:
        yield
    except Exception:
        ledger().write("failed", job.jid, job.attempt)
        raise
    ledger().write("done", job.jid, job.attempt)


@cache
def ledger() -> Ledger:
    """The ledger in the current folder: workers of the demo run in the demo's folder."""
    return Ledger(Path())


def soon(count: int, error: BaseException, payload: JobPayload) -> float:  # noqa: ARG001  # the hook's signature
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


@job(name="charge_card", queue="payments", retry=5, retry_in=soon)
def charge_card(order: int, item: int) -> None:
    if current_job().attempt == 1 and (order + item) % 5 == 0:
        raise ConnectionError("the bank did not answer")


@job(name="print_label", queue="labels", retry=1, retry_in=soon)
def print_label(order: int) -> None:
    if order % 8 == 0:
        raise LookupError(f"order {order} has no address")


@job(name="write_report", queue="reports")
def write_report(order: int) -> None:  # noqa: ARG001  # shown on pages
    time.sleep(REPORT_SECONDS)


def push_order(client: Client, ledger: Ledger, order: int) -> None:
    """Push the jobs of one order, and record the pushes that the server acknowledged."""
    confirm = confirm_order.via(client)
    ledger.pushed(*confirm.enqueue_many(confirm.call(order, item) for item in range(ITEMS)))
    ledger.pushed(print_label.via(client).enqueue(order), write_report.via(client).enqueue_in(1.0, order))
