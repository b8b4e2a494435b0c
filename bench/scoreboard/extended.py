"""The jobs of workers with extensions: unique and limited ones, one for each shard, those of batches, and tracked ones.

Each run of a member or a callback of a batch is noted in the ledger with its time; `batches` checks the notes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import offsider
from bench.scoreboard import application
from bench.scoreboard.application import ledger, ran
from offsider import Client, Config, current_job, job
from offsider.ext.batches import Batch, Batches, current_batch
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.results import Results
from offsider.ext.unique import Unique

#: The shard that the row started a worker for.
SHARD = "SCOREBOARD_SHARD"
LIMIT = 3
#: Longer than any row: a lock is released when its job ends.
LOCKED_SECONDS = 3600
#: Short enough that a lock expires during the row.
BRIEFLY_SECONDS = 10
CANCELLED_WITHIN_SECONDS = 5.0


def configure(config: Config) -> None:
    application.configure(config)
    for extension in (Unique(), ConcurrencyLimits(), Batches(), Results()):
        config.use(extension)


# --- unique and limited jobs


def run(ms: float, shard: str) -> None:
    """Sleep, and count the effect and its shard."""
    time.sleep(ms / 1000)
    ran()
    if os.environ.get(SHARD, shard) != shard:
        ledger.count("strayed", current_job().jid)


@job(name="fleet.Urgent", urgency="high")
def urgent(_number: int, ms: float = 1) -> None:
    """Run on the shard of urgent jobs."""
    run(ms, "urgent")


@job(name="fleet.Crunch", resource_boundary="cpu")
def crunch(_number: int, ms: float = 1) -> None:
    """Run on the shard on the other server."""
    run(ms, "crunch")


@job(name="fleet.Ordinary")
def ordinary(_number: int, ms: float = 1) -> None:
    """Run on the catch-all shard."""
    run(ms, "ordinary")


@job(name="fleet.Flaky", resource_boundary="cpu", retry=5, retry_in=lambda _count, _error, _payload: 1)
def flaky(_number: int, ms: float = 1) -> None:
    """Fail at the first attempt; the retry stays on the same server."""
    if current_job().attempt == 1:
        raise RuntimeError("the first time it fails")
    run(ms, "crunch")


@job(name="fleet.Limited", extra={"concurrency_limit": LIMIT})
def limited(_number: int, ms: float = 1) -> None:
    """Run at most three at once."""
    with ledger.running("limited"):
        run(ms, "ordinary")


@job(name="fleet.LimitedCrunch", resource_boundary="cpu", extra={"concurrency_limit": 1})
def limited_crunch(_number: int, ms: float = 1) -> None:
    """Run one at a time, on the other server."""
    with ledger.running("limited crunch"):
        run(ms, "crunch")


@job(name="fleet.Once", extra={"unique_for": LOCKED_SECONDS})
def once(key: int) -> None:
    """Run as a unique job per key."""
    with ledger.running(f"once {key}", "once"):
        run(1, "ordinary")


@job(name="fleet.Briefly", unique_until="until_executed", unique_for=BRIEFLY_SECONDS)
def briefly(_key: int) -> None:
    """Run with a lock that expires after a few seconds."""
    run(1, "ordinary")


# --- batches


def push_batch(client: Client, config: Config, *, dies: bool) -> None:
    """Push a batch with a member that adds a child and a member; a job of the child fails once, or dies."""
    with make_batch(config, dies=dies):
        fails_once.via(client).enqueue()
        member.via(client).enqueue()
        adding.via(client).enqueue(dies)


def make_batch(config: Config | None = None, *, dies: bool) -> Batch:
    """Return a new batch with all callbacks."""
    batch = Batch(data={"dies": dies}, config=config)
    for event in ("complete", "success", "death"):
        batch.on(event, called, {"event": event})
    return batch


def _note(how: str) -> None:
    context = current_job()
    ledger.note("members", context.payload.get("bid"), context.jid, context.attempt, how)


@job(name="batches.Member")
def member() -> None:
    """Succeed."""
    _note("ran")


@job(name="batches.Flaky", retry=5, retry_in=lambda _count, _error, _payload: 0.1)
def fails_once() -> None:
    """Fail at the first attempt."""
    if current_job().attempt == 1:
        _note("failed")
        raise RuntimeError("the first time it fails")
    _note("ran")


@job(name="batches.Dying", retry=0)
def dying() -> None:
    """Fail, and never retry."""
    _note("died")
    raise RuntimeError("it always fails")


@job(name="batches.Adding")
def adding(dies: bool) -> None:  # noqa: FBT001 - an argument of a job
    """Add a member to the batch, and a child with two members."""
    with current_batch():
        with make_batch(dies=dies):
            (dying if dies else fails_once).enqueue()
            member.enqueue()
        member.enqueue()
    _note("ran")


@job(name="batches.Called")
def called(bid: str, options: Mapping[str, Any]) -> None:
    """Note a callback, and when it was pushed."""
    context = current_job()
    pushed_at = context.payload.get("enqueued_at", 0)
    pushed_ms = int(pushed_at if pushed_at > 1e11 else pushed_at * 1000)
    ledger.note("callbacks", bid, options["event"], pushed_ms, context.interrupted_count)


# --- results


@job(name="scoreboard.Kept", keep_result=3600)
def kept(number: int) -> int:
    """Return the number."""
    ran()
    return number


@job(name="scoreboard.Target", track=True, retry=5, retry_in=lambda _count, _error, _payload: 3600)
def target(fails: bool) -> None:  # noqa: FBT001 - an argument of a job
    """Wait to be cancelled: in the retry set, or in the queue."""
    ledger.note("began", current_job().jid)
    if fails and current_job().attempt == 1:
        raise RuntimeError("the first time it fails")


@job(name="scoreboard.Cancelling")
def cancelling(*jids: str) -> None:
    """Cancel jobs, and note which of them are reported as removed."""
    for jid in jids:
        found = offsider.lookup(jid)
        found.cancel()
        if found.status() == "cancelled":
            ledger.note("cancelled", jid)
    ran()


@job(name="scoreboard.CancelsItself", track=True)
def cancels_itself() -> None:
    """Run until it is cancelled."""
    context = current_job()
    offsider.lookup(context.jid).cancel()
    give_up = time.monotonic() + CANCELLED_WITHIN_SECONDS
    while not context.cancelled and time.monotonic() < give_up:
        time.sleep(0.005)
