"""The worker's own admission: a job is deferred or dropped, stranded, takes slots for its run, or is held.

It runs before all middleware, so a job that it refuses has not started and is not counted. Controls that stop a job
come first, since an operator can drop the jobs of a class that no worker knows. If the server does not answer:

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
from offsider.worker.run.control_rules import Decision

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.controls import Control
    from offsider.core.outcome import Outcome
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware
    from offsider.storage.redis import Redis
    from offsider.worker.run.control_rules import ControlRules
    from offsider.worker.run.slots import Slots
    from offsider.worker.run.stranded import StrandedCheck

OUTAGE_SECONDS = 1.0
REFUSED_SECONDS = 10.0


class Admission:
    """Lets a job run if no control stops it, this worker can run it, and it gets a slot in each of its groups.

    Args:
        config: handles errors.
        redis: the worker's server.
        rules: the controls and limits in force.
        slots: tracks slots in use.
        stranded: decides about jobs that this worker might be unable to run.
    """

    def __init__(
        self, config: Config, redis: Redis, rules: ControlRules, slots: Slots, stranded: StrandedCheck
    ) -> None:
        self._config = config
        self._redis = redis
        self._rules = rules
        self._slots = slots
        self._stranded = stranded
        self._numbers = itertools.count(1)

    def concerns(self, job: JobContext) -> bool:
        # Each job gets here: one call, and no look-up of a rule.
        payload, declared, known = job.payload, job.declared, self._rules.known
        return (
            declared is None
            or payload.get("signature") not in declared.signatures
            or payload["class"] not in known
            or known[payload["class"]] is not None
        )

    def __call__(self, job: JobContext) -> Middleware:
        rule = self._rules.rule_of(job.payload["class"])
        stop = None if rule is None else self._rules.decide(rule, job.queue).stop
        refused = self._stranded.judge(job, job.declared) if stop is None else stopped(stop, self._rules)
        if refused is not None:
            return refused
        decision = Decision()
        if rule is not None:  # not before: a key function needs arguments that fit
            decision = self._rules.decide(rule, job.queue, "" if rule.key is None else rule.key(job))
        if decision.stop is not None:
            return stopped(decision.stop, self._rules)
        if not decision.groups:
            return (yield)
        run = LimitedRun(f"{job.process} {next(self._numbers)} {job.jid}", job.process, decision.groups)
        moved = self._take(job, run)
        if moved is not None:
            return moved
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


def stopped(control: Control, rules: ControlRules) -> NotStarted:
    """Return the outcome of a job that a control stops, and count it."""
    rules.count(control)
    why = f": {control.reason}" if control.reason else ""
    if control.action == "defer":
        return NotStarted("schedule", control.delay_seconds, f"deferred by a control{why}", "deferred")
    return NotStarted("quarantine" if control.keep else "gone", reason=f"dropped by a control{why}", name="dropped")
