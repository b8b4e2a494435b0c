"""The stored jobs: can somebody run them, and do the sets stay small?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from offsider.core.wording import counted
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, bad, ok, warn
from offsider.inspector.doctor.listing import listed
from offsider.inspector.history import History
from offsider.inspector.job_record import JobRecord
from offsider.inspector.parked import parked_jobs
from offsider.storage import job_sets, queues
from offsider.storage.cross_section import cross_section

#: Jobs that are looked at from each end of every place.
SAMPLE = 100
NEARLY_FULL = 0.9
MANY_RETRIES = 1_000
FAILING_SHARE, FAILING_LEAST = 0.5, 100


def check_queue_types(facts: Facts) -> Iterator[Finding]:
    """Is every queue one?"""
    odd = sorted(queue for queue, size in facts.queues.items() if size is None)
    if odd:
        yield bad(
            "queue types",
            f"something else than a queue lies under {listed([facts.redis.keys.queue(queue) for queue in odd])}",
            why="pushes to it fail, and no worker takes from it",
            way_out=f"find out who wrote it: redis-cli TYPE {facts.redis.keys.queue(odd[0])}",
        )


def check_known(facts: Facts) -> Iterator[Finding]:
    """Does some live worker know each job that waits?"""
    told = {jobs.name for jobs in parked_jobs(facts.config)}  # by `check_parked`
    unknown: Counter[str] = Counter()
    malformed: Counter[str] = Counter()
    looked_at = 0
    for place, records in _sample(facts):
        for record in records:
            looked_at += 1
            if record.malformed:
                malformed[place] += 1
            elif record.name not in told and _is_unknown(record, facts):
                unknown[record.name] += 1
    if malformed:
        places = listed([f"{place} ({count})" for place, count in malformed.most_common()])
        yield warn(
            "malformed",
            f"bytes that are no job lie in {places}",
            why="nobody can run them: they go to the dead set when their turn comes",
            way_out="find out who pushes them; the dead set shows the bytes",
        )
    if unknown:
        names = listed([name for name, _ in unknown.most_common()])
        yield bad(
            "unknown jobs",
            f"no live worker that serves their queue knows {names}",
            why=_what_comes_of_them(facts),
            way_out="start a worker whose -r declares them, or give the renamed job aliases=(…)",
        )
    if not malformed and not unknown:
        yield ok("stored jobs", f"looked at {counted(looked_at, 'job')}: each can be run")


def _what_comes_of_them(facts: Facts) -> str:
    days = facts.config.worker.park_days
    if not days:
        return "such jobs fail with UnknownJob and end up dead"
    return f"such jobs are parked until a worker that knows them starts, and buried after {counted(days, 'day')}"


def check_parked(facts: Facts) -> Iterator[Finding]:
    """Do jobs wait for a worker that can run them?"""
    for jobs in parked_jobs(facts.config):
        since = datetime.fromtimestamp(jobs.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
        count = counted(jobs.count, "job") if jobs.is_counted else f"at least {counted(jobs.count, 'job')}"
        pushed = f", pushed by version {listed(list(jobs.versions))}" if jobs.versions else ""
        yield bad(
            "parked",
            f"no live worker can run {count} of {jobs.name} in {listed(list(jobs.queues))}, since {since}{pushed}",
            why=f"{jobs.reason or 'they wait in the schedule'}; {_what_comes_of_them(facts)}",
            way_out="start workers of the release that pushed them; or delete them on the page of scheduled jobs",
        )


def _sample(facts: Facts) -> Iterable[tuple[str, list[JobRecord]]]:
    sample = cross_section(facts.redis, queues.names(facts.redis), each=SAMPLE)
    return ((place, [JobRecord(raw) for raw in raws]) for place, raws in sample.items())


def _is_unknown(record: JobRecord, facts: Facts) -> bool:
    """Only when all who serve its queue tell what they know: Ruby's processes do not, and may know anything."""
    serving = [facts.known.get(process.identity) for process in facts.serving(record.queue or "default")]
    return bool(serving) and all(names is not None and record.name not in names for names in serving)


def check_dead(facts: Facts) -> Iterator[Finding]:
    """Does the dead set overflow?"""
    size = job_sets.size(facts.redis, facts.redis.keys.dead)
    most = facts.config.worker.dead_max_jobs
    if size >= most * NEARLY_FULL:
        yield warn(
            "dead set",
            f"{size} of at most {most} jobs are in the dead set",
            why="the oldest are dropped for each new one, whether anybody has looked at them or not",
            way_out="retry or delete them (offsider top, offsider web), or raise worker.dead_max_jobs",
        )
    else:
        yield ok("dead set", counted(size, "dead job"))


def check_retries(facts: Facts) -> Iterator[Finding]:
    """Do many jobs wait for another try?"""
    size = job_sets.size(facts.redis, facts.redis.keys.retry)
    if size >= MANY_RETRIES:
        yield warn(
            "retries",
            f"{counted(size, 'job')} wait for another try",
            why="something they need is likely down, and they will come back all together",
            way_out="look at their errors (offsider top, tab Retries), and mend what they share",
        )


def check_failures(facts: Facts) -> Iterator[Finding]:
    """Do most runs of today fail?"""
    today = History.read(1, facts.config)
    processed, failed = sum(today.processed.values()), sum(today.failed.values())
    if processed >= FAILING_LEAST and failed >= processed * FAILING_SHARE:
        yield warn(
            "failures",
            f"{failed} of today's {processed} runs failed",
            why="most of what the workers do is in vain",
            way_out="look at the errors: offsider top, tab Retries",
        )


JOB_CHECKS = (check_queue_types, check_known, check_parked, check_dead, check_retries, check_failures)
