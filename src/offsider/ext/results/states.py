"""The state of a job by the outcome of its run.

=================================  ==========================================
outcome                            state
=================================  ==========================================
succeeded, or skipped              succeeded
skipped because of a cancellation  cancelled
failed, and goes to the retry set  retrying
failed, and goes to the dead set   dead
failed, and is deleted             failed
discarded, dropped                 discarded
expired                            expired
any other                          queued or scheduled, by where the job goes
=================================  ==========================================
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from offsider.core.error_text import class_of, message_of, traceback_of
from offsider.core.job_id import FailedRun
from offsider.core.outcome import Discarded, Failed, Skipped, Succeeded
from offsider.ext.results.store import SettledJob, failure_fields, progress_text

if TYPE_CHECKING:
    from offsider.core.job_id import State
    from offsider.core.outcome import Destination, Outcome
    from offsider.ext.results.control import ResultsControl
    from offsider.ext.results.rules import ResultSettings
    from offsider.storage.scripts import Argument

_BY_DESTINATION: dict[Destination, State] = {
    "gone": "discarded",
    "quarantine": "discarded",
    "queue": "queued",
    "elsewhere": "queued",
    "retry": "retrying",
    "schedule": "scheduled",
    "dead": "dead",
}
WAITING = frozenset({"queued", "scheduled", "retrying"})


def state_of(outcome: Outcome, goes: Destination, *, cancelled: bool) -> State:
    """Return the state of a job after a run, or an attempt to run it.

    Args:
        cancelled: whether its cancellation was requested.
    """
    if isinstance(outcome, Skipped):
        return "cancelled" if cancelled else "succeeded"
    if isinstance(outcome, Succeeded):
        return "succeeded"
    if isinstance(outcome, Failed) and goes == "gone":
        return "failed"
    if outcome.name == "expired":
        return "expired"
    return _BY_DESTINATION[goes]


def settled(
    control: ResultsControl, outcome: Outcome, goes: Destination, rules: ResultSettings, now: float
) -> SettledJob:
    """Return what to store for a run with this outcome.

    Args:
        now: epoch seconds.
    """
    state = state_of(outcome, goes, cancelled=control.requested)
    fields: dict[str, Argument] = {}
    kept_seconds = None if control.tracking is None else control.tracking.keep_result_seconds
    if control.latest is not None:
        fields["progress"] = progress_text(control.latest)
    if isinstance(outcome, Failed | Discarded):
        fields |= {"error_class": class_of(outcome.error), "error_message": message_of(outcome.error)}
        if kept_seconds is not None:
            fields |= failure_fields(_failed_run(control, outcome.error, now))
    delay_seconds = 0.0
    if state == "scheduled":
        delay_seconds = getattr(outcome, "delay_seconds", 0.0)
        fields["due"] = repr(now + delay_seconds)
    if state == "succeeded":
        if control.without_result:
            fields["why"] = control.without_result
        elif control.result is not None or isinstance(outcome, Skipped):
            fields["result"] = control.result or b"null"
    ended = state not in WAITING
    life_seconds = rules.keep_waiting_seconds + delay_seconds
    if ended:
        life_seconds = kept_seconds or rules.keep_state_seconds
    return SettledJob(
        state=state,
        ended=ended,
        life_seconds=life_seconds,
        at=now,
        duration_ms=None if control.began_at is None else round((time.perf_counter() - control.began_at) * 1000),
        process=control.job.process,
        fields=fields,
    )


def _failed_run(control: ResultsControl, error: BaseException, now: float) -> FailedRun:
    job, started_at = control.job, now if control.started_at is None else control.started_at
    return FailedRun(job.attempt, started_at, now, job.process, class_of(error), traceback_of(error))
