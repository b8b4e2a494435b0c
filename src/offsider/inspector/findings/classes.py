"""Classes of jobs that fail more often or run longer than before, since when, and because of which release.

The runs of the last hour are known by class, release and minute. A step (`offsider.inspector.statistics.find_step`) of
the share of failed runs is a broken class; a step of the share of runs that take twice the former 95th percentile is a
slow one. A step that was found once ends when the last minutes are closer to the share before than to the share since.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsider.config.addresses import class_path, error_path, jobs_path
from offsider.config.web_tab import WebLink
from offsider.core.segments import segment
from offsider.core.series import DURATION_SECONDS
from offsider.core.wording import counted, shell_words
from offsider.inspector.failures import ErrorGroup
from offsider.inspector.finding import Finding, error, warn
from offsider.inspector.findings.look import MINUTE_SECONDS, MINUTES, Look
from offsider.inspector.findings.wording import clock_time, percent, seconds_text
from offsider.inspector.statistics import (
    MIN_DIFFERENCE,
    MIN_HITS,
    MIN_STEP_SECONDS,
    Share,
    exceeds,
    find_step,
    median,
    percentile,
)
from offsider.storage.run_counts import MinuteCounts

#: A class without earlier runs is broken if more of its runs fail, by the interval of 99 %.
BROKEN_SHARE = 0.5
#: Runs above this multiple of the former 95th percentile, and above this time, are slow.
SLOW_FACTOR, SLOW_SECONDS = 2.0, 0.25
P95 = 0.95
#: A class recovers if a smaller part of the former share fails. More tenants of an error are not counted.
RECOVERING, MAX_TENANTS = 0.75, 8
#: Minutes of a part of the hour: the median of the parts is the usual 95th percentile.
PART = 10
#: Minutes, including the current one, that decide whether a step has ended.
RECENT = 5
#: A release is the likely cause if the step begins this long after its first run, and by this probability.
CAUSE_SECONDS, CAUSE_LEVEL = 120.0, 0.001
#: A release is named if it began to run this long before or after the step.
NEAR_SECONDS = 600.0


@dataclass(frozen=True)
class Trend:
    """A share of a class's runs that has risen.

    Attributes:
        was: the share before; None without earlier runs.
        now: the share since then.
        since: start of its first minute, in epoch seconds.
        recent: the share of the last minutes.
    """

    was: float | None
    now: Share
    since: float
    recent: Share


@dataclass(frozen=True)
class Measure:
    """What is compared.

    Attributes:
        id: id of the finding.
        releases: the runs of the class.
        hits: returns the counted runs per minute, such as the failed ones.
        verb: what they do.
    """

    id: str
    releases: Sequence[MinuteCounts]
    hits: Callable[[MinuteCounts], Sequence[int]]
    verb: str

    @property
    def recent(self) -> Share:
        """The share of the last minutes."""
        hits = sum(sum(self.hits(counts)[-RECENT:]) for counts in self.releases)
        return Share(hits, sum(sum(counts.processed[-RECENT:]) for counts in self.releases))

    @property
    def minutes(self) -> list[Share]:
        """The share of the counted runs in each minute, of all releases."""
        runs = (sum(minute) for minute in zip(*(counts.processed for counts in self.releases), strict=True))
        hits = (sum(minute) for minute in zip(*map(self.hits, self.releases), strict=True))
        return [Share(*pair) for pair in zip(hits, runs, strict=True)]


def find_classes(look: Look) -> Iterator[Finding]:
    """Find broken and slow classes."""
    active = {name: releases for name, releases in look.runs.items() if name}
    for name, releases in active.items():
        broken = _broken(look, name, releases, len(active))
        slow = _slow(look, name, releases, len(active))
        if broken is not None:
            if slow is not None:
                broken = replace(broken, details=(*broken.details, slow.statement))
            yield broken
        elif slow is not None:
            yield slow


# --------------------------------------------------------------------------------------------------------- failures
def _broken(look: Look, name: str, releases: Sequence[MinuteCounts], classes: int) -> Finding | None:
    measure = Measure(f"broken:{name}", releases, lambda counts: counts.failed, "fail")
    # A step is higher; most classes need no further test.
    if measure.id not in look.known and measure.recent.value < MIN_DIFFERENCE / 2:
        return None
    minutes = measure.minutes
    trend = _trend(look, measure.id, minutes, classes) or _without_history(look, measure.id, minutes)
    if trend is None:
        return None
    groups = sorted((each for each in look.errors if each.name == name), key=lambda each: -each.jobs)
    new = [each for each in groups if -MINUTE_SECONDS <= each.first_at - trend.since < CAUSE_SECONDS]
    since = min((each.first_at for each in new), default=trend.since)
    was = "" if trend.was is None else f" (was {percent(trend.was)})"
    group = next(iter(new or groups), None)
    per_minute = trend.recent.hits / _recent_minutes(look)
    return error(
        "broken",
        f"{name}: {percent(trend.now.value)} of runs fail{was}",
        cause=_cause(look, measure, trend.since),
        actions=(
            f"see its errors: offsider show classes {shell_words(name)}",
            f"until it is mended: offsider controls defer {shell_words(name)}",
        ),
        kind="broken",
        subject=name,
        details=(*map(_error_text, (new or groups)[:3]), _course(look, minutes, trend)),
        numbers={
            "failed": trend.now.hits,
            "runs": trend.now.runs,
            "share": trend.now.value,
            "failed_per_minute": per_minute,
            **({} if trend.was is None else {"was": trend.was}),
        },
        since=since,
        harm=look.weight(name) * per_minute,
        buttons=(
            WebLink("Open", error_path(group.id) if group else class_path(name)),
            WebLink("Retry the last 10 minutes", jobs_path("retry,dead", **{"class": name}, failed="10m")),
            WebLink("Defer", f"/controls/{segment(name)}"),
        ),
    )


def _without_history(look: Look, id_: str, minutes: Sequence[Share]) -> Trend | None:
    """Return the failures of a class that has failed in the whole last hour, or that has too few runs before them."""
    first = next((number for number, minute in enumerate(minutes) if minute.hits), MINUTES)
    recent, whole, known = _sum(minutes[-RECENT:]), _sum(minutes[first:]), look.known.get(id_)
    since = look.minute_at(first) if known is None or known.since is None else known.since
    if recent.hits < MIN_HITS or look.now - since < MIN_STEP_SECONDS:
        return None
    is_broken = min(recent.interval()[0], whole.interval()[0]) > BROKEN_SHARE
    return Trend(None, whole, since // MINUTE_SECONDS * MINUTE_SECONDS, recent) if is_broken else None


def _error_text(group: ErrorGroup) -> str:
    """Return an error without its message, which may quote arguments."""
    where = f" in {group.frame.file}:{group.frame.line} {group.frame.function}" if group.frame.file else ""
    users = f", {counted(group.user_count, 'user')}" if group.user_count else ""
    least = "at least " if len(group.tenants) == MAX_TENANTS else ""
    tenants = f", {least}{counted(len(group.tenants), 'tenant')}" if group.tenants else ""
    dead = f", {group.deaths:,} dead" if group.deaths else ""
    return f"{group.error_class}{where}: {counted(group.jobs, 'job')}{users}{tenants}{dead}"


def _course(look: Look, minutes: Sequence[Share], trend: Trend) -> str:
    """Return whether a class recovers: its failures now beside those of five minutes ago, or of its first minute."""
    first = round((trend.since - look.first_minute) / MINUTE_SECONDS)
    of_runs = (each for each in range(max(0, first, MINUTES - RECENT - 2), MINUTES - 2) if minutes[each].runs)
    start, now = next(of_runs, None), _sum(minutes[-2:])
    rate = f"{now.hits / (MINUTE_SECONDS + look.now % MINUTE_SECONDS):.1f} failures/s now"
    if start is None or not now.runs:
        return rate
    before = minutes[start]
    verdict = "recovering" if now.interval()[1] < RECOVERING * before.value else "not recovering"
    minute = clock_time(look.minute_at(start))
    return f"{verdict}: {percent(before.value)} failed at {minute}, {percent(now.value)} in the last minute; {rate}"


# ------------------------------------------------------------------------------------------------------- durations
def _slow(look: Look, name: str, releases: Sequence[MinuteCounts], classes: int) -> Finding | None:
    last = [sum(bucket) for bucket in zip(*(counts.last_durations(RECENT) for counts in releases), strict=True)]
    recent = percentile(last, DURATION_SECONDS, P95)
    if recent is None or recent <= SLOW_SECONDS:
        return None
    by_bucket = [[sum(counts) for counts in zip(*of_releases, strict=True)] for of_releases in _by_bucket(releases)]
    id_ = f"slow:{name}"
    parts = [[sum(bucket[at : at + PART]) for bucket in by_bucket] for at in range(0, MINUTES, PART)]
    of_parts = [percentile(part, DURATION_SECONDS, P95) for part in parts]
    known = look.known.get(id_)
    usual = known.numbers["was_seconds"] if known else median([each for each in of_parts if each is not None])
    limit = next((bound for bound in DURATION_SECONDS if bound >= max(SLOW_SECONDS, usual * SLOW_FACTOR)), None)
    if limit is None:
        return None
    above = DURATION_SECONDS.index(limit) + 1

    def slow_runs(counts: MinuteCounts) -> Sequence[int]:
        return [sum(minute) for minute in zip(*counts.durations[above:], strict=True)]

    measure = Measure(id_, releases, slow_runs, f"take longer than {seconds_text(limit)}")
    trend = _trend(look, id_, measure.minutes, classes)
    # A 95th percentile above the limit: more than 5 % of the runs take longer.
    if trend is None or trend.now.interval()[0] <= 1 - P95:
        return None
    first = max(0, round((trend.since - look.first_minute) / MINUTE_SECONDS))
    since_then = [sum(bucket[first:]) for bucket in by_bucket]
    now = percentile(since_then, DURATION_SECONDS, P95) or 0.0
    shown = seconds_text(now) if now < math.inf else f"more than {seconds_text(DURATION_SECONDS[-1])}"
    per_minute = trend.recent.hits / _recent_minutes(look)
    return warn(
        "slow",
        f"{name}: p95 {shown} (was {seconds_text(usual)})",
        cause=_cause(look, measure, trend.since),
        actions=(f"what its runs wait for: offsider show classes {shell_words(name)}; offsider dump PROCESS",),
        kind="slow",
        subject=name,
        numbers={
            "p95_seconds": min(now, DURATION_SECONDS[-1]),
            "was_seconds": usual,
            "was": trend.was or 0.0,
            "runs": trend.now.runs,
            "slow": trend.now.hits,
        },
        since=trend.since,
        harm=look.weight(name) * per_minute,
        buttons=(WebLink("Open", class_path(name)),),
    )


def _by_bucket(releases: Sequence[MinuteCounts]) -> Iterable[tuple[Sequence[int], ...]]:
    """Return the runs per minute of each release, by bucket of durations."""
    return zip(*(counts.durations for counts in releases), strict=True)


# ------------------------------------------------------------------------------------------------------------ both
def _trend(look: Look, id_: str, minutes: Sequence[Share], classes: int) -> Trend | None:
    recent, known = _sum(minutes[-RECENT:]), look.known.get(id_)
    if not recent.hits:
        return None
    if known is not None and known.since is not None and "was" in known.numbers:
        first = max(0, int((known.since - look.first_minute) // MINUTE_SECONDS))
        since = known.since // MINUTE_SECONDS * MINUTE_SECONDS
        was, now = known.numbers["was"], _sum(minutes[first:])
    else:
        step = find_step(minutes, look.now - look.minute_at(MINUTES - 1), classes)
        if step is None:
            return None
        was, now, since = step.was, step.after, look.minute_at(step.minute)
    # If the share of the last minutes is nearer to the share before than to that since then, the step has ended.
    return Trend(was, now, since, recent) if recent.interval()[1] >= (was + now.value) / 2 else None


def _sum(minutes: Sequence[Share]) -> Share:
    return Share(sum(minute.hits for minute in minutes), sum(minute.runs for minute in minutes))


def _recent_minutes(look: Look) -> float:
    return RECENT - 1 + (look.now % MINUTE_SECONDS) / MINUTE_SECONDS


def _cause(look: Look, measure: Measure, minute: float) -> str:
    """Return the likely cause of a step, or what is known about its begin."""
    known = look.known.get(measure.id)
    if known is not None and minute - NEAR_SECONDS < look.first_minute:
        return known.cause  # the runs of that time are no longer read
    own = {counts.release for counts in measure.releases if any(counts.processed)}
    starts = look.release_starts.items()
    near = {release: at for release, at in starts if release in own and abs(at - minute) <= NEAR_SECONDS}
    if not near:
        return "no release that runs it began within ten minutes"
    release, at = min(near.items(), key=lambda item: abs(item[1] - minute))
    if not 0 <= minute - at <= CAUSE_SECONDS:
        order = "before" if minute < at else "after"
        return f"it began {order} the first run of release {release} at {clock_time(at)}"
    shares = _side_by_side(look, measure, release, at)
    if shares is None:
        return f"it began with release {release}; no other release ran beside it"
    new, others = shares
    old, other = ", ".join(sorted(name or "no release" for name in others)), _sum([*others.values()])
    if new.value > other.value and exceeds(new, other) < CAUSE_LEVEL:
        compared = f"{percent(other.value)} of {other.runs:,.0f} of {old}"
        return (
            f"release {release} is the likely cause: {percent(new.value)} of its {new.runs:,.0f} runs {measure.verb}, "
            f"{compared}"
        )
    return f"it began at the first run of release {release}, but the runs of {old} {measure.verb} as often"


def _side_by_side(look: Look, measure: Measure, release: str, at: float) -> tuple[Share, Mapping[str, Share]] | None:
    """Return the shares of a release and of the others in the minutes in which both ran; None if they did not."""
    first = max(0, round((at - look.first_minute) / MINUTE_SECONDS))
    new = next((counts for counts in measure.releases if counts.release == release), None)
    olds = [counts for counts in measure.releases if counts.release != release]
    if new is None:
        return None
    runs, of_olds = new.processed, [sum(minute) for minute in zip(*(counts.processed for counts in olds), strict=True)]
    both = [number for number in range(first, len(of_olds)) if runs[number] and of_olds[number]]
    if not both:
        return None

    def share(counts: MinuteCounts) -> Share:
        found = measure.hits(counts)
        return Share(sum(found[number] for number in both), sum(counts.processed[number] for number in both))

    return share(new), {counts.release: each for counts in olds if (each := share(counts)).runs}
