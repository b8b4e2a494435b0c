"""Check the stored jobs: can live workers run them, how large are the sets, and which controls act on them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.controls import ControlInForce, Controls
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.finding import Finding, error, ok, warn
from offsider.inspector.job_record import JobRecord
from offsider.inspector.stats import History
from offsider.inspector.stranded import stranded_jobs
from offsider.storage import job_sets, queues, slots
from offsider.storage.leases import is_held
from offsider.storage.sample import sample_jobs

#: Number of jobs to examine at each end of every place.
SAMPLE = 100
NEARLY_FULL = 0.9
MANY_RETRIES = 1_000
FAILING_SHARE, FAILING_LEAST = 0.5, 100
_DAY = 86_400.0
#: A control without an expiry that is this old was probably forgotten.
OLD_SECONDS = 3 * _DAY


def check_known(facts: Facts) -> Iterator[Finding]:
    """Find waiting jobs that no live worker knows, and malformed payloads."""
    reported = {jobs.name for jobs in stranded_jobs(facts.server)}  # by `check_stranded`
    unknown: Counter[str] = Counter()
    malformed: Counter[str] = Counter()
    examined = 0
    for place, records in _sample(facts):
        for record in records:
            examined += 1
            if record.malformed:
                malformed[place] += 1
            elif record.name not in reported and _is_unknown(record, facts):
                unknown[record.name] += 1
    if malformed:
        places = listed([f"{place} ({count})" for place, count in malformed.most_common()])
        yield warn(
            "malformed",
            f"malformed payloads in {places}",
            cause="they cannot run: workers move them to the dead set",
            action="find the program that pushes them; the dead set shows the bytes",
        )
    if unknown:
        names = listed([name for name, _ in unknown.most_common()])
        yield error(
            "unknown jobs",
            f"no live worker of their queue declares {names}",
            cause=_consequence(facts),
            action='start a worker that declares them (-r), or declare a renamed job with name=("new", "old")',
        )
    if not malformed and not unknown:
        yield ok("stored jobs", f"live workers can run all {counted(examined, 'job')} of the sample")


def _consequence(facts: Facts) -> str:
    days = facts.server.config.worker.stranded_days
    if not days:
        return "such jobs fail with UnknownJob until they are dead"
    return f"such jobs wait until a capable worker starts, and are dead after {counted(days, 'day')}"


def check_stranded(facts: Facts) -> Iterator[Finding]:
    """Find stranded jobs, which wait for a worker that can run them."""
    for jobs in stranded_jobs(facts.server):
        since = datetime.fromtimestamp(jobs.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
        count = counted(jobs.count, "job") if jobs.is_counted else f"at least {counted(jobs.count, 'job')}"
        pushed = f", pushed by version {listed(list(jobs.versions))}" if jobs.versions else ""
        yield error(
            "stranded",
            f"no live worker can run {count} of {jobs.name} in {listed(list(jobs.queues))}, since {since}{pushed}",
            cause=f"{jobs.reason or 'they wait in the schedule'}; {_consequence(facts)}",
            action="start workers of the release that pushed them, or delete them on the page Scheduled",
        )


def _sample(facts: Facts) -> Iterable[tuple[str, list[JobRecord]]]:
    sample = sample_jobs(facts.redis, queues.names(facts.redis), each=SAMPLE)
    return ((place, [JobRecord(raw) for raw in raws]) for place, raws in sample.items())


def _is_unknown(record: JobRecord, facts: Facts) -> bool:
    """Whether all workers of the queue report their jobs and none knows this one. Ruby does not report its jobs."""
    serving = [facts.known.get(process.identity) for process in facts.serving(record.queue or "default")]
    return bool(serving) and all(names is not None and record.name not in names for names in serving)


def check_dead(facts: Facts) -> Iterator[Finding]:
    """Check whether the dead set is nearly full."""
    size = job_sets.size(facts.redis, facts.redis.keys.dead)
    most = facts.server.config.worker.dead_max_jobs
    if size >= most * NEARLY_FULL:
        yield warn(
            "dead set",
            f"the dead set has {size} jobs, the limit is {most}",
            cause="each new dead job deletes the oldest one, reviewed or not",
            action="retry or delete them (offsider top, offsider web), or raise worker.dead_max_jobs",
            numbers={"jobs": size, "limit": most},
        )
    else:
        yield ok("dead set", counted(size, "dead job"))


def check_retries(facts: Facts) -> Iterator[Finding]:
    """Check whether many jobs wait for a retry."""
    size = job_sets.size(facts.redis, facts.redis.keys.retry)
    if size >= MANY_RETRIES:
        yield warn(
            "retries",
            f"{counted(size, 'job')} waiting for a retry",
            cause="a service that they need is probably down, and they will all be retried together",
            action="look at their errors (offsider top, tab Retries), and fix the common cause",
            numbers={"jobs": size},
        )


def check_failures(facts: Facts) -> Iterator[Finding]:
    """Check whether most runs of today have failed."""
    today = History.read(1, facts.server)
    processed, failed = sum(today.processed.values()), sum(today.failed.values())
    if processed >= FAILING_LEAST and failed >= processed * FAILING_SHARE:
        yield warn(
            "failures",
            f"{failed} of today's {processed} runs failed",
            cause="most of the workers' capacity is spent on failures",
            action="look at the errors: offsider top, tab Retries",
            numbers={"runs": processed, "failed": failed},
        )


def check_controls(facts: Facts) -> Iterator[Finding]:
    """Find controls that are old, or not the same on all servers."""
    found = Controls(facts.server).look().controls
    old = [one for one in found if one.since and one.until is None and facts.now - one.since >= OLD_SECONDS]
    old = [one for one in old if one.action in ("hold", "defer", "drop")]
    partial = [one for one in found if one.missing_on or one.differs_on]
    if old:
        yield warn(
            "old controls",
            f"controls are set for days: {listed([_shown(one, facts.now) for one in old])}",
            cause="these jobs are held, deferred or dropped and never run; the control may have been forgotten",
            action=f"offsider controls resume {shell_words(old[0].subject)}; or remove the code that pushes these jobs",
        )
    if partial:
        yield warn(
            "partial controls",
            f"not every server has the control of {listed([_where(one) for one in partial])}",
            cause="the same jobs are treated differently on some servers",
            action="set the control again, or end it: offsider controls",
        )
    if found and not old and not partial:
        yield ok("controls", f"controls are set for {listed([one.subject for one in found])}")


def check_held(facts: Facts) -> Iterator[Finding]:
    """Find held jobs that no worker resumes."""
    controls = Controls(facts.server)
    on = {control.subject: control.action for control in controls.here()}
    held = [group for group in controls.groups() if group.held]
    if held and not is_held(facts.redis, slots.LEASE):
        count, names = sum(group.held for group in held), listed([group.name for group in held])
        yield warn(
            "held jobs",
            f"{counted(count, 'held job')} of {names}, but no worker resumes held jobs",
            cause="held jobs wait until a worker of this server gives them a slot",
            action="run a worker of this server",
        )
        return
    # Workers free slots of dead processes and resume jobs within a second; jobs still held after that are stuck.
    stuck = [group.name for group in held if not (group.in_use or group.rate.starts or on.get(group.name) == "hold")]
    if stuck:
        yield warn(
            "held jobs",
            f"jobs of {listed(stuck)} are held although no slot is in use",
            cause="they should have been resumed within a second, unless their queue is paused or a limit is negative",
            action="run offsider controls and offsider queues: is their queue paused?",
        )


def _where(control: ControlInForce) -> str:
    parts = (("not on", control.missing_on), ("different on", control.differs_on))
    return f"{control.subject} ({'; '.join(f'{how} {listed(servers)}' for how, servers in parts if servers)})"


def _shown(control: ControlInForce, now: float) -> str:
    return f"{control.subject} (for {counted(int((now - control.since) // _DAY), 'day')})"


JOB_CHECKS = (check_known, check_stranded, check_dead, check_retries, check_failures, check_controls, check_held)
