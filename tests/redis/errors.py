"""Failed runs in error groups, as workers store them."""

from __future__ import annotations

from offsider.core.error_text import Frame
from offsider.storage import error_groups
from offsider.storage.error_groups import FailedRun, Noted
from offsider.storage.redis import Redis


def failed_run(at: float, message: str = "no", name: str = "Mail", error: str = "ValueError", **fields) -> FailedRun:
    """A failed run; by default the first of its job."""
    return FailedRun(name, error, message, fields.pop("frame", Frame("mail.py", "send", 7)), at, **fields)


def note_errors(redis: Redis, *runs: FailedRun, traceback: str = "Traceback") -> None:
    """Store failed runs as one batch."""
    groups: dict[str, Noted] = {}
    for run in runs:
        groups.setdefault(run.group, Noted(run, traceback, run.at)).add(run)
    error_groups.note(redis, groups)


def note_as(redis: Redis, group: str, *runs: FailedRun) -> None:
    """Store failed runs under a chosen ID."""
    noted = Noted(runs[0], "Traceback", runs[0].at)
    for run in runs:
        noted.add(run)
    error_groups.note(redis, {group: noted})
