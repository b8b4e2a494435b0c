"""Check the queues: do workers serve them, are they paused, are they lists, and how long do their jobs wait?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.doctor.facts import Facts, worker_command
from offsider.inspector.doctor.finding import Finding, error, ok, warn
from offsider.storage import queues

LATE_WARN_SECONDS, LATE_ERROR_SECONDS = 60.0, 3_600.0
#: Maximum number of queues in the suggested command; the finding names no more either.
_NAMED = 5


def check_served(facts: Facts) -> Iterator[Finding]:
    """Find queues with jobs that no worker serves."""
    waiting = {queue: size for queue, size in facts.queues.items() if size}
    unserved = [queue for queue in waiting if not facts.serving(queue)]
    if unserved:
        jobs = sum(waiting[queue] or 0 for queue in unserved)
        yield error(
            "unserved",
            f"no worker serves {listed(unserved)} ({counted(jobs, 'job')} waiting)",
            why="these jobs never run",
            fix=f"{worker_command(facts.here, *unserved[:_NAMED])} (quiet workers claim no jobs)",
        )


def check_paused(facts: Facts) -> Iterator[Finding]:
    """Find paused queues with jobs, which may have been forgotten."""
    forgotten = sorted(queue for queue in facts.paused if facts.queues.get(queue))
    if forgotten:
        jobs = sum(facts.queues[queue] or 0 for queue in forgotten)
        yield warn(
            "paused",
            f"{listed(forgotten)} {'is' if len(forgotten) == 1 else 'are'} paused ({counted(jobs, 'job')} waiting)",
            why="workers claim no jobs from a paused queue until you resume it",
            fix=f"offsider queues resume {shell_words(forgotten[0])}",
        )


def check_queue_types(facts: Facts) -> Iterator[Finding]:
    """Find queues whose key has another type."""
    odd = sorted(queue for queue, size in facts.queues.items() if size is None)
    if odd:
        yield error(
            "queue types",
            f"these keys are not lists: {listed([facts.redis.keys.queue(queue) for queue in odd])}",
            why="pushes to these queues fail, and workers cannot claim jobs from them",
            fix=f"find the program that wrote them: {facts.redis_cli} TYPE "
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
        why="the workers of these queues do not keep up",
        fix="add workers or threads for these queues (-c, -q), or find out what fills them: offsider queues",
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


QUEUE_CHECKS = (check_served, check_paused, check_queue_types, check_waiting)
