"""The way into a run: a job of a limited class takes a slot, or is parked; and the way out, which frees the slot.

It is the outermost middleware, so that nothing has begun, been counted or freed for a job that is parked. What is
done when the server does not answer:

* A job that asked for a slot waits for the answer, and asks once more in a way that neither parks it twice nor takes
  two slots. When the worker has to go meanwhile, the job goes back to its queue.
* A server that refuses the script gets the job back for later; no retry is used up.
* A slot that cannot be freed is freed by the service as soon as the server is back.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from offsider.core.errors import MovedAway, RedisFailure, RedisUnavailable, Reschedule, Shutdown
from offsider.ext.concurrency_limits import store
from offsider.ext.concurrency_limits.store import Entered, Parkable, Run

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits.slots import Slots
    from offsider.ext.concurrency_limits.table import Limited, Table
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext

T = TypeVar("T")

OUTAGE_SECONDS = 1.0
REFUSED_SECONDS = 10.0


class Gate:
    """Server middleware.

    Args:
        config: of the worker.
        table: says which classes are limited.
        slots: frees them.
    """

    def __init__(self, config: Config, table: Table, slots: Slots) -> None:
        self._config = config
        self._table = table
        self._slots = slots
        self._numbers = itertools.count(1)

    def __call__(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        try:
            limited = self._table.known[job.payload["class"]]
        except KeyError:
            limited = self._ask(job, lambda _: self._table.learn(job.name)) if job.process else None
        if limited is None or not job.process:  # a run outside of a worker asks nobody
            return call_next(job)
        run = Run(limited.name, f"{job.process} {next(self._numbers)} {job.jid}", job.process)
        entered = self._enter(job, run, limited)
        if entered is Entered.UNLIMITED:
            return call_next(job)
        if entered is not Entered.TAKEN:
            raise self._sent_away(entered, limited)
        self._slots.hold(run, limited.declared)
        try:
            return call_next(job)
        finally:
            self._slots.leave(run, limited.declared)

    def _enter(self, job: JobContext, run: Run, limited: Limited) -> Entered:
        redis = self._config.shared_redis()
        parkable = Parkable.of(job.raw, job.queue, job.payload.get("queue"), job.entry)
        return self._ask(job, lambda again: store.enter(redis, run, job.jid, limited.declared, parkable, again=again))

    def _ask(self, job: JobContext, question: Callable[[bool], T]) -> T:
        again = reported = False
        while True:
            try:
                return question(again)
            except RedisUnavailable as error:
                again = again or error.ambiguous
                if not reported:
                    self._config.handle_error(error, {"context": "asking for a slot", "job": job.payload})
                    reported = True
                if job.stopping:
                    raise Shutdown from None
                time.sleep(OUTAGE_SECONDS)
            except RedisFailure as error:
                self._config.handle_error(error, {"context": "asking for a slot", "job": job.payload})
                raise Reschedule(REFUSED_SECONDS, reason="its concurrency limit cannot be asked") from error

    def _sent_away(self, entered: Entered, limited: Limited) -> MovedAway:
        if entered is Entered.LOST:
            return MovedAway("another process")
        if entered is Entered.PARKED_BEHIND:
            self._slots.resume(limited.name, limited.declared)
        return MovedAway("parked: its class is at its concurrency limit")
