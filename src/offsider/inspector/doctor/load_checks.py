"""The load: do jobs wait for long, because all threads are taken, or because some run for ever?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsider.core.wording import counted
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, bad, ok, warn
from offsider.inspector.doctor.listing import listed
from offsider.inspector.work import Work, WorkSet
from offsider.storage import oldest, quarantine

LATE_WARN_SECONDS, LATE_BAD_SECONDS = 60.0, 3_600.0
LONG_HOURS = 3
#: So many jobs in quarantine are worth a look.
MANY_ASIDE = 10_000


def check_waiting(facts: Facts) -> Iterator[Finding]:
    """Do jobs wait for long in queues that somebody serves?"""
    late = {queue: waited for queue, waited in _waits(facts).items() if waited >= LATE_WARN_SECONDS}
    if not late:
        yield ok("waiting", "no next job has waited for a minute")
        return
    slowest = sorted(late, key=lambda queue: late[queue], reverse=True)
    judge, limit = (bad, "an hour") if late[slowest[0]] >= LATE_BAD_SECONDS else (warn, "a minute")
    waits = [f"{queue} ({_span(late[queue])}, {counted(facts.queues[queue] or 0, 'job')})" for queue in slowest]
    yield judge(
        "waiting",
        f"the next job has waited for more than {limit}: {listed(waits)}",
        why="the workers of these queues do not keep up",
        way_out="add workers or threads for these queues (-c, -q), or see what fills them: offsider queues",
    )


def check_saturation(facts: Facts) -> Iterator[Finding]:
    """Are all threads taken while jobs wait?"""
    working = [process for process in facts.processes if not process.is_quiet]
    threads = sum(process.concurrency for process in working)
    busy = sum(process.busy for process in working)
    waiting = [queue for queue, waited in _waits(facts).items() if waited >= LATE_WARN_SECONDS]
    if waiting and threads and busy >= threads:
        yield warn(
            "saturation",
            f"{busy} of {counted(threads, 'thread')} busy, and jobs wait in {listed(sorted(waiting))}",
            why="a job begins only when another has ended",
            way_out="add workers, or threads where jobs wait for others (-c); offsider top shows what runs for long",
        )


def check_long_runs(facts: Facts) -> Iterator[Finding]:
    """Does a job run for hours?"""
    long = [work for work in WorkSet(facts.config) if work.elapsed_seconds >= LONG_HOURS * 3_600]
    if long:
        yield warn(
            "long runs",
            f"{counted(len(long), 'job')} running for more than {LONG_HOURS} hours: {listed([*map(_shown, long)])}",
            why="each keeps a thread, and is interrupted at the next deploy; it may hang",
            way_out=f"offsider dump {long[0].process} tells where it is; give such jobs a hard_timeout",
        )


def check_quarantine(facts: Facts) -> Iterator[Finding]:
    """Do so many jobs lie in quarantine that they fill the server?"""
    size, most = quarantine.size(facts.redis), facts.config.worker.quarantine_max_jobs
    if size >= min(MANY_ASIDE, most):
        full = size >= most
        yield warn(
            "quarantine",
            f"{counted(size, 'job')} in quarantine, and {most:,} are the most",
            why="what switches drop now is deleted for good"
            if full
            else f"they take memory for up to {facts.config.worker.quarantine_days} days",
            way_out="restore or delete them on the page Quarantine; offsider switches shows what is dropped",
        )


def _waits(facts: Facts) -> Mapping[str, float]:
    """For how many seconds the next job has waited, of each queue that is served and not paused."""
    names = [queue for queue, size in facts.queues.items() if size and queue not in facts.paused]
    served = [queue for queue in names if facts.serving(queue)]
    since = oldest.enqueued_at(facts.redis, served) if served else []
    return {queue: facts.vitals.now - at for queue, at in zip(served, since, strict=True) if at is not None}


def _shown(work: Work) -> str:
    return f"{work.record.name or work.jid} ({_span(work.elapsed_seconds)})"


def _span(seconds: float) -> str:
    """In the unit that people would say."""
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return counted(int(seconds // size), name)
    return counted(int(seconds), "second")


LOAD_CHECKS = (check_waiting, check_saturation, check_long_runs, check_quarantine)
