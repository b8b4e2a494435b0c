"""Finds periodic jobs that do not run: paused, in no live process, or with ticks that were missed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from offsider.config.addresses import FLEET
from offsider.config.web_tab import WebButton, WebLink
from offsider.core.segments import segment
from offsider.core.wording import counted, shell_words
from offsider.ext.periodic.jobs import PeriodicJob, PeriodicJobs
from offsider.ext.periodic.store import PROGRAM_SECONDS
from offsider.inspector.finding import Finding, error, warn
from offsider.storage import clocks

if TYPE_CHECKING:
    from offsider.config.installation import Installation

#: Skipped ticks are counted up to this number.
MAX_SKIPPED = 1_000
#: Missed ticks are shown for this long.
MISSED_SECONDS = 3_600.0


def find_periodic(server: Installation) -> Iterator[Finding]:
    """Find periodic jobs whose ticks push nothing."""
    now, _ = clocks.look(server.redis)
    for job in PeriodicJobs(server, server=server.name):
        last, lost_at = job.last, None if job.versions else job.seen_at
        if job.paused:
            yield from _paused(job, now)
        elif lost_at is not None and now - lost_at > PROGRAM_SECONDS and (skipped := _ticks(job, lost_at, now)):
            yield error(
                "periodic orphaned",
                f"{job.name}: no live process pushes this periodic job, {_count(skipped)} missed",
                cause="the processes that registered it have ended, or a release has removed it",
                actions=(f"start a worker with it, or delete it: offsider do periodic {shell_words(job.name)}/remove",),
                since=lost_at,
                **_common(job, skipped, now - lost_at),
            )
        elif last is not None and last.how == "skipped" and now - last.at < MISSED_SECONDS:
            yield warn(
                "periodic missed",
                f"{job.name}: {_count(last.count)} of this periodic job missed",
                cause="no worker was able to push them in time",
                actions=(f"run it now: offsider do periodic {shell_words(job.name)}/run",),
                since=last.at,
                **_common(job, last.count, MISSED_SECONDS),
            )


def _paused(job: PeriodicJob, now: float) -> Iterator[Finding]:
    pause = job.pause_origin
    by, reason, at = (pause.by, pause.reason, pause.at) if pause else ("", "", 0.0)
    skipped = _ticks(job, at, now) if at else 0
    if at and not skipped:
        return
    why = f" ({reason})" if reason else ""
    yield warn(
        "periodic paused",
        f"{job.name}: periodic job paused by {by or 'an unknown client'}{why}" + (f", {_count(skipped)}" if at else ""),
        cause="its ticks push nothing until you resume it",
        actions=(f"offsider do periodic {shell_words(job.name)}/resume",),
        since=at or None,
        **_common(job, skipped, now - at, WebButton("Resume", f"/periodic/{segment(job.name)}/resume")),
    )


def _common(job: PeriodicJob, skipped: int, seconds: float, *buttons: WebButton) -> dict[str, Any]:
    return {
        "kind": "stopped",
        "subject": job.name,
        "numbers": {"ticks": skipped},
        "harm": skipped / max(1.0, seconds / 60),
        "buttons": (*buttons, WebLink("Periodic jobs", FLEET)),
    }


def _ticks(job: PeriodicJob, since: float, until: float) -> int:
    """Return the number of ticks between two times, at most `MAX_SKIPPED`."""
    return sum(1 for _ in islice(takewhile(lambda at: at <= until, job.entry.ticks.ticks_after(since)), MAX_SKIPPED))


def _count(ticks: int) -> str:
    return f"{'at least ' if ticks == MAX_SKIPPED else ''}{counted(ticks, 'tick')}"
