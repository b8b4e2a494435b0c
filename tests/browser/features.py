"""The application of the tests of optional features: jobs that note in the ledger what they do."""

from __future__ import annotations

import time
from collections.abc import Callable

from offsider import Config, configure_client, current_job, job
from offsider.ext.batches import Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiter, Limiters
from offsider.ext.results import Results
from tests.process.ledger import note

API = Limiter.window("api", 3, "day", wait_timeout=0)
DISK = Limiter.concurrent("disk", 2)


@configure_client
def configure(config: Config) -> None:
    config.use(Batches())
    config.use(ConcurrencyLimits())
    config.use(Limiters())
    config.use(Results())


@job(name="shop.imports.import_row")
def import_row(row: int) -> None:
    note("end", current_job().jid, row)


@job(name="shop.imports.check_row")
def check_row(row: int) -> None:
    """Fails in its first run, until an operator retries it."""
    if current_job().payload.get("retry_count") is None:
        note("raise", current_job().jid, row)
        raise ValueError(f"row {row} has no price")
    note("end", current_job().jid, row)


@job(name="shop.imports.report")
def report(bid: str, options: dict[str, str]) -> None:
    note("callback", current_job().jid, f"{bid} {options['event']}")


@job(name="shop.payments.charge")
def charge(card_id: int) -> None:
    with API.within_limit():
        note("charged", current_job().jid, card_id)


def wait(until: Callable[[], bool], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not until() and time.monotonic() < ends:
        time.sleep(0.02)


@job(name="shop.backups.copy", concurrency_limit=2)
def copy(volume: str) -> None:
    note("start", current_job().jid, volume)
    with DISK.within_limit():
        wait(lambda: current_job().stopping)


@job(name="shop.reports.yearly", track=True)
def yearly(pages: int) -> None:
    note("start", current_job().jid)
    for page in range(pages):
        current_job().progress(page + 1, pages, f"page {page + 1}")
    wait(lambda: current_job().cancelled)
    note("cancelled", current_job().jid)


@job(name="shop.reports.daily", keep_result=3600)
def daily() -> int:
    note("end", current_job().jid)
    return 42


@job(name="shop.login.send_code", expires_in=0.001, track=True)
def send_code() -> None:
    note("sent", current_job().jid)
