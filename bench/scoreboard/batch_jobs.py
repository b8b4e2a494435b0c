"""Jobs of batches. Each run is noted in the ledger with its time; `batches` checks the notes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bench.scoreboard.effects import VARIABLE, Effects
from offsider import Client, Config, current_job, job
from offsider.core.payload import JobPayload
from offsider.ext.batches import Batch, current_batch

effects = Effects(os.environ.get(VARIABLE, ""))


def push_batch(client: Client, config: Config, *, dies: bool) -> None:
    """Push a batch with a member that adds a child and a member; a job of the child fails once, or dies."""
    with make_batch(config, dies=dies):
        flaky.via(client).enqueue()
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
    effects.note("members", context.payload.get("bid"), context.jid, context.attempt, how)


def _at_once(_count: int, _error: BaseException, _payload: JobPayload) -> float:
    return 0.1


@job(name="batches.Member")
def member() -> None:
    """Succeed."""
    _note("ran")


@job(name="batches.Flaky", retry=5, retry_in=_at_once)
def flaky() -> None:
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
            (dying if dies else flaky).enqueue()
            member.enqueue()
        member.enqueue()
    _note("ran")


@job(name="batches.Called")
def called(bid: str, options: Mapping[str, Any]) -> None:
    """Note a callback, and when it was pushed."""
    context = current_job()
    pushed_at = context.payload.get("enqueued_at", 0)
    pushed_ms = int(pushed_at if pushed_at > 1e11 else pushed_at * 1000)
    effects.note("callbacks", bid, options["event"], pushed_ms, context.interrupted_count)
