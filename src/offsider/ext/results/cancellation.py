"""Removes a cancelled job that waits: from the schedule, the retry set, or its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsider.inspector.job_set import RetrySet, ScheduledSet
from offsider.inspector.queue import Queue

if TYPE_CHECKING:
    from offsider.config.installation import Installation


def remove_waiting(here: Installation, jid: str, state: str | None) -> bool:
    """Delete a job that waits. True if it was found.

    Args:
        state: limits the search; None for an untracked job.
    """
    if state == "running":
        return False
    for name, kind in (("scheduled", ScheduledSet), ("retrying", RetrySet)):
        if state in (None, name):
            entry = kind(here).find_job(jid)
            if entry is not None and entry.delete():
                return True
    # The job of a set may be in its queue by now.
    for queue in Queue.all(here):
        record = queue.find_job(jid)
        if record is not None and queue.delete(record):
            return True
    return False
