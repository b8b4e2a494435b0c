"""Check the load: busy threads, long runs, and the size of the quarantine."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, warn
from offsider.inspector.doctor.queue_checks import LATE_WARN_SECONDS, latencies, span
from offsider.inspector.work import Work, WorkSet
from offsider.storage import quarantine

LONG_HOURS = 3
#: Number of jobs in quarantine from which to warn.
MANY_ASIDE = 10_000


def check_saturation(facts: Facts) -> Iterator[Finding]:
    """Check whether all threads are busy while jobs wait."""
    working = [process for process in facts.processes if not process.is_quiet]
    threads = sum(process.concurrency for process in working)
    busy = sum(process.busy for process in working)
    waiting = [queue for queue, waited in latencies(facts).items() if waited >= LATE_WARN_SECONDS]
    if waiting and threads and busy >= threads:
        yield warn(
            "saturation",
            f"{busy} of {counted(threads, 'thread')} busy, and jobs wait in {listed(sorted(waiting))}",
            why="a job starts only when another one ends",
            fix="add workers, or for jobs that wait for I/O add threads (-c); offsider top shows long runs",
        )


def check_long_runs(facts: Facts) -> Iterator[Finding]:
    """Find jobs that have run for hours."""
    long = [work for work in WorkSet(facts.here) if work.elapsed_seconds >= LONG_HOURS * 3_600]
    if long:
        yield warn(
            "long runs",
            f"{counted(len(long), 'job')} running for more than {LONG_HOURS} hours: {listed([*map(_shown, long)])}",
            why="each job occupies a thread, may hang, and is interrupted by the next deploy",
            fix=f"offsider dump {shell_words(long[0].process)} logs its stack; set hard_timeout for such jobs",
        )


def check_quarantine(facts: Facts) -> Iterator[Finding]:
    """Check whether the quarantine is large or full."""
    size, most = quarantine.size(facts.redis), quarantine.MAX_JOBS
    if size >= min(MANY_ASIDE, most):
        full = size >= most
        yield warn(
            "quarantine",
            f"{counted(size, 'job')} in quarantine, the limit is {most:,}",
            why="jobs that controls drop from now on are deleted permanently"
            if full
            else f"they use memory for up to {facts.here.config.worker.quarantine_days} days",
            fix="restore or delete them on the page Quarantine; offsider controls lists the controls",
        )


def _shown(work: Work) -> str:
    return f"{work.record.name or work.jid} ({span(work.elapsed_seconds)})"


LOAD_CHECKS = (check_saturation, check_long_runs, check_quarantine)
