"""Jobs that end or block workers, and jobs that wait for a limit or for a worker that can run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from offsider.config.addresses import FLEET, job_path, jobs_path, log_path
from offsider.config.web_tab import WebButton, WebLink
from offsider.core.controls import QUEUE, Control, class_of
from offsider.core.payload import decode_or_none, read_stamp
from offsider.core.segments import segment
from offsider.core.series import DURATION_SECONDS
from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.controls import Controls, GroupSeen
from offsider.inspector.finding import Finding, error, warn
from offsider.inspector.findings.look import MINUTE_SECONDS, Look
from offsider.inspector.findings.wording import clock_time, span
from offsider.inspector.statistics import percentile
from offsider.inspector.stranded import stranded_jobs
from offsider.inspector.work import Work
from offsider.storage import events, slots, stack_samples

#: As many deaths within this time are a crash loop; one may be the kernel's or an operator's decision.
MIN_DEATHS, DEATHS_SECONDS = 3, 600.0
#: A run is held up if it takes this multiple of the longest usual run of its class, and this long at least; and
#: after hours if its class is unknown.
HELD_FACTOR, HELD_SECONDS, HELD_HOURS, MIN_RUNS = 5.0, 60.0, 3, 20
USUAL = 0.99
#: A job held by a limit for this long is a problem; shorter waits are what limits are for.
LIMITED_SECONDS = 300.0
CONTROLS = "/controls"
MAX_NAMED = 3


def find_crashes(look: Look) -> Iterator[Finding]:
    """Find processes that died one after another, and poison pills: jobs that killed every process that ran them."""
    deaths = [event for event in look.events if event.kind == events.DIED and look.now - event.at <= DEATHS_SECONDS]
    if len(deaths) >= MIN_DEATHS:
        first, last = deaths[-1].at, deaths[0].at
        how = Counter(event.fields.get("how", "").removeprefix("was killed by ") for event in deaths)
        shown = listed(f"{count}x {name}" for name, count in how.most_common() if name)
        hosts = listed(sorted({event.subject.partition(":")[0] for event in deaths}))
        jobs = sum(int(held) for event in deaths if (held := event.fields.get("jobs", "")).isdigit())
        yield error(
            "crash",
            f"{counted(len(deaths), 'process')} died in {span(max(1.0, last - first))}"
            + (f": {shown}" if shown else ""),
            cause=f"on {hosts}; they interrupted {counted(jobs, 'job')}",
            actions=("look at the log of the hosts: dmesg, journalctl; offsider log",),
            kind="crash",
            numbers={"deaths": len(deaths), "jobs": jobs},
            since=first,
            harm=len(deaths) * 60.0 / DEATHS_SECONDS * max(1, jobs),
            buttons=(WebLink("Log", log_path(kind=events.DIED)),),
        )
    pills = [event for event in look.events if event.kind == events.POISON_PILL]
    if pills:
        names = dict.fromkeys(f"{pill.fields.get('class', '')} {pill.subject}".strip() for pill in pills)
        yield error(
            "poison",
            f"{counted(len(pills), 'poison pill')} moved to the dead set",
            cause="each of these jobs killed every process that ran it, and was moved to the dead set",
            actions=("reproduce one; after the fix, retry it: offsider jobs --where dead --error offsider.PoisonPill",),
            kind="poison",
            details=tuple(filter(None, names))[:MAX_NAMED],
            numbers={"jobs": len(pills)},
            since=pills[-1].at,
            harm=len(pills) / MINUTE_SECONDS,
            buttons=(WebLink("Jobs", jobs_path("dead", error="offsider.PoisonPill")),),
        )


def find_held(look: Look) -> Iterator[Finding]:
    """Find jobs that run far longer than their class usually does."""
    long: dict[str, list[Work]] = {}
    for work in look.works:
        seconds = work.elapsed_seconds
        if seconds >= HELD_SECONDS and seconds >= HELD_FACTOR * _usual_seconds(look, work.record.name):
            long.setdefault(work.record.name or work.jid, []).append(work)
    for name, works in long.items():
        processes = list(dict.fromkeys(work.process for work in works))
        longest = works[0].elapsed_seconds
        yield warn(
            "held",
            f"{name}: {counted(len(works), 'thread')} of {listed(processes, MAX_NAMED)} held for {span(longest)}",
            cause="far longer than the runs of this class; each occupies a thread, and the next deploy interrupts it",
            actions=(f"offsider dump {shell_words(processes[0])} logs its stack; set hard_timeout for such jobs",),
            kind="held",
            subject=name,
            details=tuple(f"in {sample.place}" for sample in stack_samples.read(look.redis, works[0].jid)[-1:]),
            numbers={"jobs": len(works), "elapsed_seconds": longest},
            since=works[0].run_at or None,
            harm=look.weight(name) * len(works),
            buttons=(WebLink("Stack", job_path(works[0].jid)), WebLink("Runs", FLEET)),
        )


def _usual_seconds(look: Look, name: str) -> float:
    """Return the 99th percentile of the runs of a class in the last hour; hours without enough runs."""
    buckets = [0] * (len(DURATION_SECONDS) + 1)
    for counts in look.runs.get(name, ()):
        buckets = [total + sum(minutes) for total, minutes in zip(buckets, counts.durations, strict=True)]
    if sum(buckets) < MIN_RUNS:
        return HELD_HOURS * 3_600 / HELD_FACTOR
    return percentile(buckets, DURATION_SECONDS, USUAL) or 0.0


def find_limited(look: Look) -> Iterator[Finding]:
    """Find groups at their limit whose held jobs have waited for long."""
    for group in look.groups:
        since, control = _held_since(look, group) if group.held else None, look.controls.get(group.name)
        is_hold = control is not None and control.action == "hold"  # see `find_controls`
        if since is None or is_hold or look.now - since < LIMITED_SECONDS:
            continue
        waited = look.now - since
        held = f"{group.name}: {counted(group.held, 'job')} held, the next for {span(waited)}"
        limit = f" of {group.limit}" if group.limit else ""
        yield warn(
            "limited",
            f"{held}; {group.in_use}{limit} {'slot' if group.in_use == 1 else 'slots'} in use",
            cause="its jobs arrive faster than its limit lets them run, or a run does not end",
            actions=(f"raise it: offsider controls limit {shell_words(group.name)} N",),
            kind="limited",
            subject=group.name,
            numbers={"jobs": group.held, "in_use": group.in_use, "limit": group.limit or 0},
            since=since + LIMITED_SECONDS,
            harm=look.weight(group.name) * group.held / max(1.0, waited / MINUTE_SECONDS),
            buttons=(WebLink("Open", f"{CONTROLS}/{segment(group.name)}"),),
        )


def find_controls(look: Look) -> Iterator[Finding]:
    """Find classes and other subjects whose jobs an operator holds, defers, drops or limits."""
    held = {group.name: group.held for group in look.groups}
    named: dict[str, Control] = {}  # by class: a key is made of arguments, which are not shown
    for subject, control in sorted(look.controls.items()):
        if control.action != "run" and not subject.startswith(QUEUE):  # a paused queue is a finding if jobs wait
            named.setdefault(class_of(subject), control)
    for name, control in named.items():
        path = CONTROLS if name != control.subject else f"{CONTROLS}/{segment(name)}"
        of = "one key, " if path == CONTROLS else ""
        until = "" if control.until is None else f" until {clock_time(control.until)}"
        why = f" ({control.reason})" if control.reason else ""
        yield warn(
            "control",
            f"{name}: {of}{control.described} by {control.by or 'an unknown client'}{until}{why}",
            cause="workers do this instead of running its jobs until the control ends"
            if control.action != "limit"
            else "workers run at most this number of its jobs at once until the control ends",
            actions=(f"offsider controls resume {shell_words(name)}" if not of else "offsider controls",),
            kind="stopped",
            subject=name,
            numbers={"jobs": held.get(name, 0)},
            since=control.since or None,
            harm=look.weight(name) * max(1, held.get(name, 0)) / MINUTE_SECONDS,
            buttons=(WebLink("Open", path), *(() if of else (WebButton("Resume", f"{path}/resume"),))),
        )


def _held_since(look: Look, group: GroupSeen) -> float | None:
    """Return when the next held job of a group was enqueued; of a class with keys, that of the key with most jobs."""
    name = Controls(look.server).keys(group.name)[0].name if group.keys else group.name
    raw = next(iter(slots.held(look.redis, name, 0, 1)), b"")
    payload = decode_or_none(raw)
    return None if payload is None else read_stamp(payload.get("enqueued_at"))


def find_stranded(look: Look) -> Iterator[Finding]:
    """Find classes with stranded jobs, which wait for a worker that can run them."""
    days = look.server.config.worker.stranded_days
    then = f", and are dead after {counted(days, 'day')}" if days else ""
    for jobs in stranded_jobs(look.server):
        name, number = jobs.name, jobs.count
        count = f"{'' if jobs.is_counted else 'at least '}{counted(number, 'job')}"
        versions, queues = listed(jobs.versions), listed(jobs.queues)
        pushed = f", pushed by version {versions}" if versions else ""
        yield error(
            "stranded",
            f"{name}: no live worker can run {count} in {queues}{pushed}",
            cause=f"{jobs.reason or 'they wait in the schedule'}; they wait until a capable worker starts{then}",
            actions=(
                "start workers of the release that pushed them",
                f"or delete them: offsider jobs --where schedule --class {shell_words(name)} delete",
            ),
            kind="stranded",
            subject=name,
            numbers={"jobs": number},
            since=jobs.since,
            harm=look.weight(name) * number / max(1.0, (look.now - jobs.since) / MINUTE_SECONDS),
            buttons=(WebLink("Jobs", jobs_path("schedule", **{"class": name})),),
        )
