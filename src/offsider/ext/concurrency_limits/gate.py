"""Admission of jobs with a concurrency limit: a job takes a slot for its run, or is held.

The admission runs before all middleware, so a held job has not started, is not counted and frees nothing.
If the server does not answer:

* A job that requested a slot waits and requests it again. The repeated call neither holds the job twice nor takes two
  slots. If the worker stops while waiting, the job is requeued.
* If the server refuses the script, the job is rescheduled; no retry is used up.
* The script that writes the outcome frees the slot, whatever the outcome is. The service frees the slot of a void run.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure, RedisUnavailable, Shutdown
from offsider.core.outcome import NotStarted, Rescheduled
from offsider.ext.concurrency_limits import store
from offsider.ext.concurrency_limits.store import Candidate, Entered, Run

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits.slots import Slots
    from offsider.ext.concurrency_limits.table import Limited, Table
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware

T = TypeVar("T")

OUTAGE_SECONDS = 1.0
REFUSED_SECONDS = 10.0


class Gate:
    """Admission that lets a job run only with a slot.

    Args:
        here: the worker's server.
        table: the limited classes.
        slots: tracks slots in use.
    """

    def __init__(self, here: Installation, table: Table, slots: Slots) -> None:
        self._here = here
        self._table = table
        self._slots = slots
        self._numbers = itertools.count(1)

    def __call__(self, job: JobContext) -> Middleware:
        name, known = job.payload["class"], self._table.known
        try:
            limited = known[name] if name in known else self._ask(job, lambda _: self._table.learn(job.name))
        except RedisFailure as error:
            return self._put_off(job, error)
        return (yield) if limited is None else (yield from self._run_limited(job, limited))

    def _run_limited(self, job: JobContext, limited: Limited) -> Middleware:
        run = Run(limited.group(job), f"{job.process} {next(self._numbers)} {job.jid}", job.process)
        try:
            entered = self._enter(job, run, limited)
        except RedisFailure as error:
            return self._put_off(job, error)
        if entered is Entered.UNLIMITED:
            return (yield)
        if entered in (Entered.HELD_BEHIND, Entered.TAKEN_LAST):
            self._slots.resume_soon(run.name, limited.declared)
        if entered not in (Entered.TAKEN, Entered.TAKEN_LAST):
            why = "another process" if entered is Entered.LOST else "held: its class is at its concurrency limit"
            return NotStarted("elsewhere", reason=why, name="moved")
        with self._slots.occupy(run, job, limited.declared):
            return (yield)

    def _put_off(self, job: JobContext, error: RedisFailure) -> Rescheduled:
        self._here.config.handle_error(error, {"context": "acquiring a slot", "job": job.payload})
        return Rescheduled(REFUSED_SECONDS, "cannot check its concurrency limit")

    def _enter(self, job: JobContext, run: Run, limited: Limited) -> Entered:
        redis = self._here.redis
        candidate = Candidate.of(job.raw, job.queue, job.payload.get("queue"), job.entry)
        return self._ask(
            job,
            lambda again: store.enter(redis, run, job.jid, limited.declared, candidate, rate=limited.rate, again=again),
        )

    def _ask(self, job: JobContext, question: Callable[[bool], T]) -> T:
        again = reported = False
        while True:
            try:
                return question(again)
            except RedisUnavailable as error:
                again = again or error.ambiguous
                if not reported:
                    self._here.config.handle_error(error, {"context": "acquiring a slot", "job": job.payload})
                    reported = True
                if job.stopping:
                    raise Shutdown from None
                time.sleep(OUTAGE_SECONDS)
