"""The application of the tests of optional features: jobs that note in the ledger what they do."""

from __future__ import annotations

from offsider import Config, configure_client, current_job, job
from offsider.ext.batches import Batches
from offsider.ext.results import Results
from tests.process.ledger import note


@configure_client
def configure(config: Config) -> None:
    config.use(Batches())
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


@job(name="shop.reports.daily", keep_result=3600)
def daily() -> int:
    note("end", current_job().jid)
    return 42


@job(name="shop.login.send_code", expires_in=0.001, track=True)
def send_code() -> None:
    note("sent", current_job().jid)
