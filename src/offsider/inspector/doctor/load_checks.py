"""Check the load: latencies, busy threads, long runs, and the size of the quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsider.core.wording import counted, listed
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, error, ok, warn
from offsider.inspector.work import Work, WorkSet
from offsider.storage import quarantine, queues

LATE_WARN_SECONDS, LATE_ERROR_SECONDS = 60.0, 3_600.0
LONG_HOURS = 3
#: Number of jobs in quarantine from which to warn.
MANY_ASIDE = 10_000


def check_waiting(facts: Facts) -> Iterator[Finding]:
    """Find served queues with a high latency."""
    late = {queue: waited for queue, waited in _waits(facts).items() if waited >= LATE_WARN_SECONDS}
    if not late:
        yield ok("waiting", "the latency of all queues is below a minute")
        return
    slowest = sorted(late, key=lambda queue: late[queue], reverse=True)
    judge, limit = (error, "an hour") if late[slowest[0]] >= LATE_ERROR_SECONDS else (warn, "a minute")
    waits = [f"{queue} ({_span(late[queue])}, {counted(facts.queues[queue] or 0, 'job')})" for queue in slowest]
    yield judge(
        "waiting",
        f"the next job has waited for more than {limit}: {listed(waits)}",
        why="the workers of these queues do not keep up",
        fix="add workers or threads for these queues (-c, -q), or find out what fills them: offsider queues",
    )


def check_saturation(facts: Facts) -> Iterator[Finding]:
    """Check whether all threads are busy while jobs wait."""
    working = [process for process in facts.processes if not process.is_quiet]
    threads = sum(process.concurrency for process in working)
    busy = sum(process.busy for process in working)
    waiting = [queue for queue, waited in _waits(facts).items() if waited >= LATE_WARN_SECONDS]
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
            fix=f"offsider dump {long[0].process} logs its stack; set hard_timeout for such jobs",
        )


def check_quarantine(facts: Facts) -> Iterator[Finding]:
    """Check whether the quarantine is large or full."""
    size, most = quarantine.size(facts.redis), facts.here.config.worker.quarantine_max_jobs
    if size >= min(MANY_ASIDE, most):
        full = size >= most
        yield warn(
            "quarantine",
            f"{counted(size, 'job')} in quarantine, the limit is {most:,}",
            why="jobs that kill switches drop from now on are deleted permanently"
            if full
            else f"they use memory for up to {facts.here.config.worker.quarantine_days} days",
            fix="restore or delete them on the page Quarantine; offsider switches lists the kill switches",
        )


def _waits(facts: Facts) -> Mapping[str, float]:
    """Return the latency in seconds of each queue that is served and not paused."""
    names = [queue for queue, size in facts.queues.items() if size and queue not in facts.paused]
    served = [queue for queue in names if facts.serving(queue)]
    since = queues.enqueued_at(facts.redis, served) if served else []
    return {queue: facts.now - at for queue, at in zip(served, since, strict=True) if at is not None}


def _shown(work: Work) -> str:
    return f"{work.record.name or work.jid} ({_span(work.elapsed_seconds)})"


def _span(seconds: float) -> str:
    """Format seconds in the largest unit."""
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return counted(int(seconds // size), name)
    return counted(int(seconds), "second")


LOAD_CHECKS = (check_waiting, check_saturation, check_long_runs, check_quarantine)
