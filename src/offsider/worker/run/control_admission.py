"""Admissions by controls: a job is deferred or dropped, takes slots for its run, or is held.

They run before all middleware, so a job that they refuse has not started and is not counted. `Stop` comes first, since
an operator can drop the jobs of a class that no worker knows; `TakeSlots` follows the check for stranded jobs. If the
server does not answer:

* A job that requested slots waits and requests them again. The repeated call neither holds the job twice nor takes two
  slots. If the worker stops while waiting, the job is requeued.
* If the server refuses the script, the job is rescheduled; no retry is used up.
* The script that writes the outcome frees the slots, whatever the outcome is. The service frees those of a void run.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisUnavailable, Shutdown
from offsider.core.outcome import NotStarted, Rescheduled
from offsider.storage import slots
from offsider.storage.slots import Candidate, LimitedRun, SlotAnswer

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.controls import Control
    from offsider.core.outcome import Destination, Outcome
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware
    from offsider.storage.redis import Redis
    from offsider.worker.run.control_rules import ControlRules
    from offsider.worker.run.slots import Slots

OUTAGE_SECONDS = 1.0
REFUSED_SECONDS = 10.0


class Stop:
    """Defers or drops jobs of a class, a selector or a queue."""

    def __init__(self, rules: ControlRules) -> None:
        self._rules = rules

    def concerns(self, job: JobContext) -> bool:
        return self._rules.rule_of(job.payload["class"]) is not None

    def __call__(self, job: JobContext) -> Middleware:
        rule = self._rules.rule_of(job.payload["class"])
        stop = None if rule is None else self._rules.decide(rule, job.queue).stop
        if stop is not None:
            return stopped(stop, self._rules)
        yield


def stopped(control: Control, rules: ControlRules) -> NotStarted:
    """Return the outcome of a job that a control stops, and count it."""
    rules.count(control)
    why = f": {control.reason}" if control.reason else ""
    if control.action == "defer":
        return NotStarted("schedule", control.delay_seconds, f"deferred by a control{why}", "deferred")
    place: Destination = "quarantine" if control.keep else "gone"
    return NotStarted(place, reason=f"dropped by a control{why}", name="dropped")


class TakeSlots:
    """Lets a job run only with a slot in each of its groups.

    Args:
        config: handles errors.
        redis: the worker's server.
        rules: the limits in force.
        slots: tracks slots in use.
    """

    def __init__(self, config: Config, redis: Redis, rules: ControlRules, slots: Slots) -> None:
        self._config = config
        self._redis = redis
        self._rules = rules
        self._slots = slots
        self._numbers = itertools.count(1)

    def concerns(self, job: JobContext) -> bool:
        return self._rules.rule_of(job.payload["class"]) is not None

    def __call__(self, job: JobContext) -> Middleware:
        rule = self._rules.rule_of(job.payload["class"])
        if rule is None:  # its control has just ended
            return (yield)
        decision = self._rules.decide(rule, job.queue, "" if rule.key is None else rule.key(job))
        if decision.stop is not None:
            return stopped(decision.stop, self._rules)
        if not decision.groups:
            return (yield)
        run = LimitedRun(f"{job.process} {next(self._numbers)} {job.jid}", job.process, decision.groups)
        refused = self._take(job, run)
        if refused is not None:
            return refused
        with self._slots.occupy(run, job):
            return (yield)

    def _take(self, job: JobContext, run: LimitedRun) -> Outcome | None:
        candidate = Candidate.of(job.raw, job.queue, job.payload.get("queue"), job.entry)
        if "resumed_at" not in job.payload and self._slots.hold_soon(run, candidate):
            return _moved("held: its group is full")
        try:
            answer, group = self._ask(job, run, candidate)
        except RedisFailure as error:
            self._config.handle_error(error, {"context": "acquiring a slot", "job": job.payload})
            return Rescheduled(REFUSED_SECONDS, "cannot check its limits")
        if group is not None and answer in (SlotAnswer.HELD_BEHIND, SlotAnswer.TAKEN_LAST):
            self._slots.resume_soon(group)
        if answer in (SlotAnswer.TAKEN, SlotAnswer.TAKEN_LAST):
            return None
        if answer is SlotAnswer.LOST or group is None:
            return _moved("another process")
        if answer is SlotAnswer.HELD:
            self._slots.note_full(group)
        return _moved(f"held: {group.name} is {'held' if group.limit < 0 else 'at its limit'}")

    def _ask(self, job: JobContext, run: LimitedRun, candidate: Candidate) -> tuple[SlotAnswer, slots.SlotGroup | None]:
        again = reported = False
        while True:
            try:
                return slots.take(self._redis, run, candidate, again=again)
            except RedisUnavailable as error:
                again = again or error.ambiguous
                if not reported:
                    self._config.handle_error(error, {"context": "acquiring a slot", "job": job.payload})
                    reported = True
                if job.stopping:
                    raise Shutdown from None
                time.sleep(OUTAGE_SECONDS)


def _moved(why: str) -> NotStarted:
    return NotStarted("elsewhere", reason=why, name="moved")
