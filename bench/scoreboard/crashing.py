"""The jobs of workers that die at a request: those of all rows, of batches, tracked ones, and cancelled ones."""

from __future__ import annotations

import time

import offsider
from bench.scoreboard import application, batch_jobs
from bench.scoreboard.application import effects, ran
from offsider import Config, current_job, job
from offsider.core.payload import JobPayload
from offsider.ext.batches import Batches
from offsider.ext.results import Results

__all__ = ["batch_jobs", "configure"]

CANCELLED_WITHIN_SECONDS = 5.0


def configure(config: Config) -> None:
    application.configure(config)
    config.use(Batches())
    config.use(Results())


@job(name="scoreboard.Kept", keep_result=3600)
def kept(number: int) -> int:
    """Return the number."""
    ran()
    return number


def _in_an_hour(_count: int, _error: BaseException, _payload: JobPayload) -> float:
    return 3600


@job(name="scoreboard.Target", track=True, retry=5, retry_in=_in_an_hour)
def target(fails: bool) -> None:  # noqa: FBT001 - an argument of a job
    """Wait to be cancelled: in the retry set, or in the queue."""
    effects.note("began", current_job().jid)
    if fails and current_job().attempt == 1:
        raise RuntimeError("the first time it fails")


@job(name="scoreboard.Cancelling")
def cancelling(*jids: str) -> None:
    """Cancel jobs, and note which of them are reported as removed."""
    for jid in jids:
        found = offsider.lookup(jid)
        found.cancel()
        if found.status() == "cancelled":
            effects.note("cancelled", jid)
    ran()


@job(name="scoreboard.CancelsItself", track=True)
def cancels_itself() -> None:
    """Run until it is cancelled."""
    context = current_job()
    offsider.lookup(context.jid).cancel()
    give_up = time.monotonic() + CANCELLED_WITHIN_SECONDS
    while not context.cancelled and time.monotonic() < give_up:
        time.sleep(0.005)
