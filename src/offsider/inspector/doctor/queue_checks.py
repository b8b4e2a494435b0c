"""Check the queues and the load: unserved and paused queues, latency, busy threads, long runs, the quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.doctor.facts import Facts, worker_command
from offsider.inspector.finding import Finding, error, ok, warn
from offsider.inspector.work import Work, WorkSet
from offsider.storage import quarantine, queues

LATE_WARN_SECONDS, LATE_ERROR_SECONDS = 60.0, 3_600.0
#: Maximum number of queues in the suggested command; the finding names no more either.
_NAMED = 5
LONG_HOURS = 3
#: Number of jobs in quarantine from which to warn.
MANY_ASIDE = 10_000


def check_served(facts: Facts) -> Iterator[Finding]:
    """Find queues with jobs that no worker serves."""
    waiting = {queue: size for queue, size in facts.queues.items() if size}
    unserved = [queue for queue in waiting if not facts.serving(queue)]
    if unserved:
        jobs = sum(waiting[queue] or 0 for queue in unserved)
        yield error(
            "unserved",
            f"no worker serves {listed(unserved)} ({counted(jobs, 'job')} waiting)",
            cause="these jobs never run",
            action=f"{worker_command(facts.server, *unserved[:_NAMED])} (quiet workers claim no jobs)",
            subject=unserved[0],
            numbers={"queues": len(unserved), "jobs": jobs},
        )


def check_paused(facts: Facts) -> Iterator[Finding]:
    """Find paused queues with jobs, which may have been forgotten."""
    forgotten = sorted(queue for queue in facts.paused if facts.queues.get(queue))
    if forgotten:
        jobs = sum(facts.queues[queue] or 0 for queue in forgotten)
        yield warn(
            "paused",
            f"{listed(forgotten)} {'is' if len(forgotten) == 1 else 'are'} paused ({counted(jobs, 'job')} waiting)",
            cause="workers claim no jobs from a paused queue until you resume it",
            action=f"offsider queues resume {shell_words(forgotten[0])}",
            subject=forgotten[0],
            numbers={"queues": len(forgotten), "jobs": jobs},
        )


def check_queue_types(facts: Facts) -> Iterator[Finding]:
    """Find queues whose key has another type."""
    odd = sorted(queue for queue, size in facts.queues.items() if size is None)
    if odd:
        yield error(
            "queue types",
            f"these keys are not lists: {listed([facts.redis.keys.queue(queue) for queue in odd])}",
            cause="pushes to these queues fail, and workers cannot claim jobs from them",
            action=f"find the program that wrote them: {facts.redis_cli} TYPE "
            f"{shell_words(facts.redis.keys.queue(odd[0]))}",
        )


def check_waiting(facts: Facts) -> Iterator[Finding]:
    """Find served queues with a high latency."""
    late = {queue: waited for queue, waited in latencies(facts).items() if waited >= LATE_WARN_SECONDS}
    if not late:
        yield ok("waiting", "the latency of all queues is below a minute")
        return
    slowest = sorted(late, key=lambda queue: late[queue], reverse=True)
    judge, limit = (error, "an hour") if late[slowest[0]] >= LATE_ERROR_SECONDS else (warn, "a minute")
    waits = [f"{queue} ({span(late[queue])}, {counted(facts.queues[queue] or 0, 'job')})" for queue in slowest]
    yield judge(
        "waiting",
        f"the next job has waited for more than {limit}: {listed(waits)}",
        cause="the workers of these queues do not keep up",
        action="add workers or threads for these queues (-c, -q), or find out what fills them: offsider queues",
        since=facts.now - late[slowest[0]],
        subject=slowest[0],
        numbers={"queues": len(late), "latency_seconds": late[slowest[0]]},
    )


def latencies(facts: Facts) -> Mapping[str, float]:
    """Return the latency in seconds of each queue that is served and not paused."""
    names = [queue for queue, size in facts.queues.items() if size and queue not in facts.paused]
    served = [queue for queue in names if facts.serving(queue)]
    since = queues.enqueued_at(facts.redis, served) if served else []
    return {queue: facts.now - at for queue, at in zip(served, since, strict=True) if at is not None}


def span(seconds: float) -> str:
    """Format seconds in the largest unit."""
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return counted(int(seconds // size), name)
    return counted(int(seconds), "second")


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
            cause="a job starts only when another one ends",
            action="add workers, or for jobs that wait for I/O add threads (-c); offsider top shows long runs",
        )


def check_long_runs(facts: Facts) -> Iterator[Finding]:
    """Find jobs that have run for hours."""
    long = [work for work in WorkSet(facts.server) if work.elapsed_seconds >= LONG_HOURS * 3_600]
    if long:
        yield warn(
            "long runs",
            f"{counted(len(long), 'job')} running for more than {LONG_HOURS} hours: {listed([*map(_shown, long)])}",
            cause="each job occupies a thread, may hang, and is interrupted by the next deploy",
            action=f"offsider dump {shell_words(long[0].process)} logs its stack; set hard_timeout for such jobs",
        )


def check_quarantine(facts: Facts) -> Iterator[Finding]:
    """Check whether the quarantine is large or full."""
    size, most = quarantine.size(facts.redis), quarantine.MAX_JOBS
    if size >= min(MANY_ASIDE, most):
        full = size >= most
        yield warn(
            "quarantine",
            f"{counted(size, 'job')} in quarantine, the limit is {most:,}",
            cause="jobs that controls drop from now on are deleted permanently"
            if full
            else f"they use memory for up to {facts.server.config.worker.quarantine_days} days",
            action="restore or delete them on the page Quarantine; offsider controls lists the controls",
            numbers={"jobs": size, "limit": most},
        )


def _shown(work: Work) -> str:
    return f"{work.record.name or work.jid} ({span(work.elapsed_seconds)})"


QUEUE_CHECKS = (
    check_served,
    check_paused,
    check_queue_types,
    check_waiting,
    check_saturation,
    check_long_runs,
    check_quarantine,
)
