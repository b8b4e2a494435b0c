"""The jobs of the shop. Their faults depend on the release, and on files in the folder of the workers."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

from offsider import Config, job
from offsider.ext.batches import Batches
from offsider.ext.periodic import Periodic
from offsider.ext.unique import Unique

#: A file with this name makes the partner slow; one with this name ends the jobs that hang.
SLOW, RELEASED = "slow", "released"
BROKEN_RELEASE = "v42"
COUNTRIES = ("DE", "AT", "CH", "FR", "IT", "ES", "PL", None)
TAX_RATES = {"DE": 19, "AT": 20}
SLOW_SECONDS = 4.0

periodic = Periodic()


def configure(config: Config) -> None:
    config.use(Batches())
    config.use(Unique())
    config.use(periodic)


def tax_rate(country: str | None) -> int:
    if os.environ.get("OFFSIDER_CLIENT_APP_VERSION") != BROKEN_RELEASE:
        return TAX_RATES.get(country or "", 0)
    return TAX_RATES[country]  # type: ignore[index]  # the fault of this release


@job(name="shop.create_invoice", queue="invoices", retry=8)
def create_invoice(order: int, customer: str, country: str | None) -> None:  # noqa: ARG001  # shown on pages
    time.sleep(0.005)
    tax_rate(country)


@job(name="shop.book_courier", queue="partners", retry=5)
def book_courier(order: int) -> None:
    time.sleep(SLOW_SECONDS if Path(SLOW).exists() else 0.1)
    if Path(SLOW).exists() and order % 4 == 0:
        raise TimeoutError("courier.example: Read timed out")


@job(name="shop.render_pdf", queue="reports")
def render_pdf(order: int, crash: str = "") -> None:  # noqa: ARG001
    time.sleep(0.05)
    if crash:
        os.kill(os.getpid(), getattr(signal, crash))


@job(name="shop.monthly_report", queue="reports")
def monthly_report(month: int) -> None:  # noqa: ARG001
    time.sleep(0.2)


@job(name="shop.export_orders", queue="exports")
def export_orders(page: int) -> None:  # noqa: ARG001
    time.sleep(0.02)


@job(name="shop.newsletter", queue="newsletter")
def newsletter(customer: str) -> None:  # noqa: ARG001
    time.sleep(0.01)


@job(name="shop.bulk_reindex", queue="bulk")
def bulk_reindex(document: int) -> None:  # noqa: ARG001
    time.sleep(0.02)


@job(name="shop.import_row", queue="default", retry=False)
def import_row(row: int) -> None:
    if row == 17:
        raise ValueError("row 17: the price is not a number")


@job(name="shop.price_list_done", queue="default")
def price_list_done(status: object, options: object) -> None:
    """The callback of the batch, which never comes."""


@job(name="shop.stuck_forever", queue="default")
def stuck_forever(number: int) -> None:  # noqa: ARG001
    while not Path(RELEASED).exists():
        time.sleep(0.1)


@job(name="shop.reindex", queue="default")
def reindex() -> None:
    time.sleep(0.01)


@job(name="shop.charge_card", queue="payments", retry=5)
def charge_card(order: int) -> None:  # noqa: ARG001
    time.sleep(0.01)
    if random.random() < 1 / 80:  # a retry succeeds
        raise ConnectionError("the bank did not answer")


def _harmless(name: str, queue: str, milliseconds: float) -> None:
    def run(number: int) -> None:
        time.sleep(milliseconds * random.uniform(0.8, 1.2) / 1000)
        if number % 1_000 == 0:
            raise OSError("the usual noise")

    run.__name__ = run.__qualname__ = name
    job(name=f"shop.{name}", queue=queue, retry=3)(run)


#: Class without its prefix -> queue and duration.
HARMLESS = {
    "send_mail": ("mail", 8),
    "welcome_mail": ("mail", 8),
    "resize_image": ("images", 15),
    "geocode": ("default", 10),
    "sync_stock": ("default", 12),
    "close_cart": ("default", 3),
    "audit_entry": ("default", 2),
    "update_price": ("default", 5),
    "refund": ("payments", 10),
}
for each, (queue, milliseconds) in HARMLESS.items():
    _harmless(each, queue, milliseconds)

QUEUES = ("invoices", "partners", "reports", "exports", "newsletter", "bulk", "payments", "mail", "images", "default")
periodic.register("*/1 * * * *", reindex, name="reindex")

# A worker must not outlive the program that plays the incident.
if os.environ.get("INCIDENT_PARENT"):

    def _watch(parent: int = int(os.environ["INCIDENT_PARENT"])) -> None:
        while Path(f"/proc/{parent}").exists():
            time.sleep(1.0)
        os.kill(os.getppid(), signal.SIGTERM)  # the parent, which would start another worker

    threading.Thread(target=_watch, daemon=True).start()
