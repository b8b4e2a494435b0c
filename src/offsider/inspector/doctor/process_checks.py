"""The workers: are there some, do they serve what waits, and do they speak the same language?"""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.wording import counted
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, bad, ok, warn
from offsider.inspector.doctor.listing import listed
from offsider.inspector.doctor.worker_command import worker_command
from offsider.inspector.process import Process

DRIFT_SECONDS = 1.0
#: A process beats each 10 s; who was silent for so long hangs, or its clock is wrong.
SILENT_SECONDS = 25.0
SLOW_MICROSECONDS = 50_000
#: So many queues are in the advice; the finding names no more either.
_NAMED = 5
#: A process that starts is short of CPU, and its last beat alone tells the round trip.
YOUNG_SECONDS = 60.0


def check_presence(facts: Facts) -> Iterator[Finding]:
    """Does anybody work?"""
    if facts.processes:
        busy = sum(process.busy for process in facts.processes)
        threads = sum(process.concurrency for process in facts.processes)
        yield ok("workers", f"{counted(len(facts.processes), 'worker')} with {counted(threads, 'thread')}, {busy} busy")
        return
    yield warn(
        "workers",
        "no worker is registered",
        why="nothing runs, and nothing that is scheduled moves",
        way_out=worker_command(facts.config),
    )


def check_served(facts: Facts) -> Iterator[Finding]:
    """Does somebody serve each queue in which jobs wait?"""
    waiting = {queue: size for queue, size in facts.queues.items() if size}
    unserved = [queue for queue in waiting if not facts.serving(queue)]
    if unserved:
        jobs = sum(waiting[queue] or 0 for queue in unserved)
        yield bad(
            "unserved",
            f"no worker serves {listed(unserved)} ({counted(jobs, 'job')} waiting)",
            why="these jobs never run",
            way_out=f"{worker_command(facts.config, *unserved[:_NAMED])} (quiet workers take nothing)",
        )


def check_paused(facts: Facts) -> Iterator[Finding]:
    """Was a queue forgotten after it was paused?"""
    forgotten = sorted(queue for queue in facts.paused if facts.queues.get(queue))
    if forgotten:
        jobs = sum(facts.queues[queue] or 0 for queue in forgotten)
        yield warn(
            "paused",
            f"{listed(forgotten)} {'is' if len(forgotten) == 1 else 'are'} paused ({counted(jobs, 'job')} waiting)",
            why="nobody takes jobs from a paused queue until somebody says so",
            way_out=f"offsider queues unpause {forgotten[0]}",
        )


def check_beats(facts: Facts) -> Iterator[Finding]:
    """Do the clocks of the workers' machines agree with the server's, and do all of them beat?"""
    for process in facts.processes:
        age_seconds = facts.vitals.now - process.beat_at
        if not process.beat_at:
            continue
        if age_seconds < -DRIFT_SECONDS:
            yield _drift(process, f"{-age_seconds:.0f} s ahead of the server's")
        elif age_seconds > SILENT_SECONDS:
            yield _drift(process, f"{age_seconds:.0f} s behind the server's, or it has not beaten for so long")


def _drift(process: Process, how: str) -> Finding:
    return warn(
        "beats",
        f"the clock of {process.identity} is {how}",
        why="times in jobs from there are wrong: delays, latencies, what is retried when",
        way_out=f"on {process.hostname}: timedatectl set-ntp true; offsider dump {process.identity} tells if it hangs",
    )


def check_distance(facts: Facts) -> Iterator[Finding]:
    """Do workers sit far from the server?"""
    grown = (process for process in facts.processes if facts.vitals.now - process.started_at >= YOUNG_SECONDS)
    slow = [process.identity for process in grown if process.round_trip_microseconds > SLOW_MICROSECONDS]
    if slow:
        yield warn(
            "distance",
            f"a round trip to the server takes over {SLOW_MICROSECONDS // 1000} ms for {listed(slow)}",
            why="every job waits for it twice; or these processes are short of CPU",
            way_out="run workers near the server, and lower their concurrency if their CPU is busy",
        )


def check_versions(facts: Facts) -> Iterator[Finding]:
    """Can the Ruby processes on the same server read what we write?"""
    written = facts.config.redis.wire_version
    for process in facts.processes:
        spoken = _wire_version(process) if process.identity not in facts.ours else None
        if spoken is not None and spoken < written:
            yield bad(
                "wire version",
                f"{process.identity} is Sidekiq {process.version or '6 or older'}, "
                f"and wire_version = {written} is written here",
                why="it does not read times and backtraces of that form",
                way_out=f"set redis.wire_version = {spoken}, or upgrade Sidekiq",
            )


def _wire_version(process: Process) -> int | None:
    major = process.version.partition(".")[0] or "6"  # 7.0 was the first to tell
    return int(major) if major in {"6", "7", "8"} else None


PROCESS_CHECKS = (check_presence, check_served, check_paused, check_beats, check_distance, check_versions)
