"""The classes of jobs: which fail or run longer than before; and one class with its releases, errors and jobs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

from offsider.config.addresses import NOW, class_path, error_path, jobs_path, with_fields
from offsider.config.web_tab import (
    Block,
    Cell,
    WebBadge,
    WebChart,
    WebFacts,
    WebFilter,
    WebHeatMap,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebPager,
    WebSpark,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.error_text import Frame
from offsider.core.options import URGENCIES
from offsider.core.series import BOUNDS_SECONDS, DURATION_SECONDS, SIDEKIQ_SECONDS, Series, regroup, summed
from offsider.fleet import Score, ServiceLevels
from offsider.fleet.service_levels import cpu_bound
from offsider.inspector import PERIODS, FleetMetrics, JobMetrics, JobTotals
from offsider.inspector.controls import Controls
from offsider.inspector.failures import ErrorGroups
from offsider.inspector.findings.look import Look, MinuteCounts, runs_of_hour
from offsider.inspector.findings.wording import percent as percent_text, seconds_text
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_metrics import HISTOGRAM_MINUTES, JobDetail, expired_count
from offsider.inspector.process import ProcessSet
from offsider.inspector.search import HELD, QUEUE, SETS, place_of
from offsider.inspector.sources import run_sources
from offsider.inspector.statistics import percentile
from offsider.inspector.work import WorkSet
from offsider.screens import controls
from offsider.screens.counters import cache_of, counters, last_hour
from offsider.screens.request import PAGE
from offsider.screens.time_axis import TimeAxis

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.config.web_tab import WebRequest

PATH, ERRORS = "/class", "/error"
HOUR = "1h"
_MINUTE = 60
#: The table of all classes is read once in this time, however many browsers show it.
_READ_SECONDS = 5.0
_SPARKS = 30
_MAX_GROUPS, _MAX_SOURCES = 8, 10
#: Time to count the jobs of a class that do not run.
_COUNT_SECONDS = 0.1
BUDGET_WINDOW = "3d"


def index(request: WebRequest) -> WebPage:
    """Show all classes by harm, or by their error budgets."""
    name, by = request.text("name"), request.choice("by", ("harm", "budget"), "harm")
    period = request.choice("period", tuple(PERIODS), HOUR)
    choices: dict[str, Cell] = {
        "Order": _choices(PATH, "by", by, {"harm": "Harm", "budget": "Error budget"}, name=name),
    }
    choices["See also"] = WebLink("Errors", ERRORS)
    if by == "budget":
        blocks = _levels(request, name)
    else:
        choices["Period"] = _choices(PATH, "period", period, dict(zip(PERIODS, PERIODS, strict=True)), name=name)
        blocks = [by_harm(request.installation, request.rows(), period, name)]
    return WebPage("Classes", [WebFacts("Shown", choices), *blocks], filter=WebFilter({"name": "Class"}))


def by_harm(
    installation: Installation, rows: slice[int, int, None] = slice(0, PAGE), period: str = HOUR, name: str = ""
) -> WebTable:
    """Return a table of the classes, the most harmful first: those whose runs fail or miss a target, by urgency.

    Args:
        installation: the server.
        rows: positions of the rows.
        period: one of `PERIODS`. Releases, percentiles and waits are those of the last hour only.
        name: only classes whose names contain this text, case-insensitive.
    """
    if period == HOUR:
        found = [each for each in cache_of(installation, _hour, _READ_SECONDS).get() if name.casefold() in each.key]
        columns: Sequence[str] = (
            "Class",
            "Runs",
            "Failed",
            "Failed %",
            "By release",
            "p95",
            "Before",
            "Wait p95",
            "Trend",
        )
        shown: list[list[Cell]] = [_hour_row(each) for each in found[rows]]
        count = len(found)
    else:
        top = JobMetrics.top(period, name_contains=name, config=installation)
        jobs = sorted(top.jobs, key=lambda job: (-job.failed, -job.processed, job.name))
        axis = TimeAxis.over(top.starts_at, top.ends_at, top.step_seconds, _SPARKS)
        columns = ("Class", "Runs", "Failed", "Failed %", "Average", "Total", "Trend")
        shown, count = [_period_row(job, period, axis) for job in jobs[rows]], len(jobs)
    return WebTable("Classes", columns, shown, "No jobs ran in this period.", WebPager(count))


@dataclass(frozen=True)
class _HourOfClass:
    """A class in the last hour: counts of all workers, and the runs of ours, the release that ran first, first."""

    totals: JobTotals
    releases: Sequence[MinuteCounts]
    weight: float
    axis: TimeAxis

    @cached_property
    def key(self) -> str:
        return self.totals.name.casefold()

    @cached_property
    def harm(self) -> tuple[float, ...]:
        """Sort key: weighted unsatisfied runs, then failed runs of other workers, then the time of all runs."""
        ours = sum(sum(one.processed) - sum(one.satisfied) for one in self.releases)
        unsatisfied = ours if self.releases else self.totals.failed
        return (-self.weight * unsatisfied, -self.totals.failed, -self.totals.ms)


def _hour(installation: Installation) -> list[_HourOfClass]:
    hour, look = last_hour(installation), Look(installation)
    runs = runs_of_hour(installation, installation.config.clock.now())
    axis = TimeAxis.over(hour.starts_at, hour.ends_at, hour.step_seconds, _SPARKS)
    jobs = {job.name: job for job in hour.jobs}
    found = [
        _HourOfClass(
            jobs.get(name, JobTotals(name)),
            sorted(runs.get(name, ()), key=lambda one: (one.first, one.release)),
            look.weight(name),
            axis,
        )
        for name in jobs.keys() | runs.keys()
    ]
    return sorted(found, key=lambda each: (each.harm, each.totals.name))


def _hour_row(of_class: _HourOfClass) -> list[Cell]:
    totals, compared = of_class.totals, of_class.releases[-2:]
    shares = [f"{one.release} {percent(sum(one.failed), sum(one.processed))}" for one in reversed(compared)]
    p95s = [seconds(percentile([*map(sum, one.durations)], DURATION_SECONDS, 0.95)) for one in reversed(compared)]
    waits = [sum(map(sum, bucket)) for bucket in zip(*(one.waits for one in of_class.releases), strict=True)]
    return [
        WebLink(totals.name, class_path(totals.name)),
        totals.processed,
        totals.failed,
        percent(totals.failed, totals.processed),
        ", ".join(shares) if len(shares) > 1 else "",
        *(*p95s, "", "")[:2],
        seconds(percentile(waits, BOUNDS_SECONDS, 0.95)),
        _trend(totals, of_class.axis),
    ]


def _period_row(job: JobTotals, period: str, axis: TimeAxis) -> list[Cell]:
    return [
        WebLink(job.name, with_fields(class_path(job.name), period=period)),
        job.processed,
        job.failed,
        percent(job.failed, job.processed),
        seconds(job.average_ms / 1000),
        seconds(job.total_seconds),
        _trend(job, axis),
    ]


def _trend(job: JobTotals, axis: TimeAxis) -> WebSpark:
    """Return the failed runs over time; those of a class without failures, all runs."""
    if job.failed:
        return WebSpark(axis.sums((at, counts.failed) for at, counts in job.counts.items()), "bad")
    return WebSpark(axis.sums((at, counts.processed) for at, counts in job.counts.items()))


# ------------------------------------------------------------------------------- service levels


_SCORE_COLUMNS = ("Runs", "Failed", "Too late", "Apdex", "Budget left", "Burn 1h", "Burn 6h")


def _levels(request: WebRequest, name: str) -> list[Block]:
    """Return the error budgets of urgencies, categories and classes, those with the least left first."""
    levels = ServiceLevels.read(request.installation)
    urgencies = levels.by("urgency")
    rows: list[list[Cell]] = [
        [
            *(WebLink(each.name, class_path(each.name)), each.urgency, each.feature_category, each.shard),
            *_scores(each.scores, levels.objective),
        ]
        for each in sorted(levels.classes, key=lambda each: (_left(each.scores, levels.objective), each.name))
        if name.casefold() in each.name.casefold()
    ]
    categories = {each: scores for each, scores in levels.by("feature_category").items() if each}
    target = request.installation.config.slo.target
    of_urgencies: list[list[Cell]] = [
        [
            *(each, _promised(target(each).queue_seconds), _promised(target(each).run_seconds)),
            *_scores(urgencies[each], levels.objective),
        ]
        for each in URGENCIES
        if each in urgencies
    ]
    of_categories: list[list[Cell]] = [[each, *_scores(categories[each], levels.objective)] for each in categories]
    return [
        WebNote(f"Of the runs of 3 days, {levels.objective:.2%} should succeed within the targets of their urgency."),
        WebTable("Urgencies", ("Urgency", "Starts within", "Ends within", *_SCORE_COLUMNS), of_urgencies),
        *([WebTable("Categories", ("Category", *_SCORE_COLUMNS), of_categories)] if of_categories else []),
        WebTable(
            "Classes",
            ("Class", "Urgency", "Category", "Shard", *_SCORE_COLUMNS),
            rows[request.rows()],
            "No jobs ran within 3 days.",
            WebPager(len(rows)),
        ),
    ]


def _promised(limit: float) -> str:
    return "any time" if math.isinf(limit) else seconds(limit)


def _left(scores: Mapping[str, Score], objective: float) -> float:
    left = scores[BUDGET_WINDOW].budget_left(objective)
    return math.inf if left is None else left


def _scores(scores: Mapping[str, Score], objective: float) -> list[Cell]:
    score = scores[BUDGET_WINDOW]
    left, burns = score.budget_left(objective), [scores[window].burn(objective) for window in ("1h", "6h")]
    return [
        *(score.total, score.failed, score.missed),
        "" if score.apdex is None else f"{score.apdex:.2%}",
        "" if left is None else WebBadge(f"{left:.0%}", "bad" if left < 0 else ""),
        *("" if burn is None else WebBadge(f"{burn:.1f} x", "bad" if burn > 1 else "") for burn in burns),
    ]


# ------------------------------------------------------------------------------- one class


def show(request: WebRequest) -> WebPage:
    """Show one class: its runs, errors, durations and waits on one axis, its releases and where its jobs are."""
    name, installation = request.path("name"), request.installation
    period = request.choice("period", tuple(PERIODS), HOUR)
    detail = JobMetrics.of(name, period, config=installation)
    axis = TimeAxis.over(detail.starts_at, detail.ends_at, detail.step_seconds)
    runs, metrics = summed((runs for _, runs in detail.runs), ()), FleetMetrics.read(installation, class_name=name)
    control = Controls(installation).find(name)
    blocks: list[Block] = [
        *([] if control is None else controls.in_force(control)),
        WebFacts(
            "Runs", {"Period": _choices(class_path(name), "period", period), **_totals(installation, detail, runs)}
        ),
        *_notes(metrics, name),
        *_charts(request, detail, axis),
        _releases(installation, detail),
        *_sources(installation, name, period),
        *_jobs(installation, metrics, name),
        *_budget(installation, name),
        *controls.forms(name),
    ]
    return WebPage("Class", blocks, subject=name)


def _totals(installation: Installation, detail: JobDetail, runs: Sequence[Series]) -> dict[str, Cell]:
    totals = detail.totals
    facts: dict[str, Cell] = {
        "Runs": totals.processed,
        "Succeeded": totals.success,
        "Failed": totals.failed,
        "Failed %": percent(totals.failed, totals.processed),
        "Time of successful runs": f"{seconds(totals.total_seconds)}, {seconds(totals.average_ms / 1000)} on average",
    }
    buckets, bounds = (runs[0].run_buckets, DURATION_SECONDS) if runs else (detail.histogram, SIDEKIQ_SECONDS)
    shares = [seconds(percentile(buckets, bounds, share)) for share in (0.5, 0.95, 0.99)]
    facts["p50, p95, p99"] = ", ".join(filter(None, shares))
    if expired := expired_count(totals.name, config=installation):
        facts["Expired in total"] = expired
    return facts


def _notes(metrics: Sequence[Series], name: str) -> Iterator[Block]:
    share = cpu_bound(metrics).get(name)
    if share is not None:
        yield WebNote(
            f"Runs of this class spend {share:.0%} of their time on the CPU. "
            'Declare resource_boundary="cpu", so that they do not slow down other jobs.',
            "info",
        )


def _charts(request: WebRequest, detail: JobDetail, axis: TimeAxis) -> Iterator[Block]:
    counts = detail.totals.counts.items()
    failed = axis.sums((at, each.failed) for at, each in counts)
    processed = axis.sums((at, each.processed) for at, each in counts)
    succeeded = [max(0.0, all_runs - bad) for all_runs, bad in zip(processed, failed, strict=True)]
    marks = [(mark.at, mark.label) for mark in detail.marks]
    known = {"", *(label for _, label in marks)}
    first = _first_runs(detail).items()
    marks += [(at, release) for release, at in first if release not in known and at > axis.starts_at]
    yield _chart(f"Runs per {axis.step_name}", axis, {"Succeeded": succeeded, "Failed": failed}, marks, Failed="bad")
    yield from _errors(request, detail, axis, marks)
    if detail.runs or detail.buckets:
        yield _durations(detail, axis, marks)
    if detail.runs:
        waits = [
            percentile(counts, BOUNDS_SECONDS, 0.95)
            for counts in zip(*(_folded(detail, axis, lambda runs: runs.queue_buckets)), strict=True)
        ]
        highest = [0.0 if wait is None else min(wait, BOUNDS_SECONDS[-1]) for wait in waits]
        yield _chart("Queue wait, p95", axis, {"Wait": highest}, marks, unit="s")


def _chart(
    title: str,
    axis: TimeAxis,
    bars: Mapping[str, Sequence[float]],
    marks: Sequence[tuple[float, str]],
    unit: str = "",
    **tones: str,
) -> WebChart:
    return WebChart(title, axis.starts_at, axis.step_seconds, bars, marks, tones, unit)


def _folded(detail: JobDetail, axis: TimeAxis, of: Callable[[Series], Sequence[int]]) -> list[list[int]]:
    """Return the runs of our workers in each bucket, by step."""
    counted = [(at, of(runs)) for at, runs in detail.runs]
    sums = (axis.sums((at, counts[bucket]) for at, counts in counted) for bucket in range(len(counted[0][1])))
    return [[*map(int, each)] for each in sums]


def _durations(detail: JobDetail, axis: TimeAxis, marks: Sequence[tuple[float, str]]) -> WebHeatMap:
    """Return the runs by duration: the successful ones of all workers, and the failed ones of ours."""
    failed = [(at, regroup(runs.failed_buckets, SIDEKIQ_SECONDS)) for at, runs in detail.runs]
    rows, hatched = dict[str, list[int]](), dict[str, list[int]]()
    for bucket, bound in enumerate((*SIDEKIQ_SECONDS, math.inf)):
        good = axis.sums((at, counts[bucket]) for at, counts in detail.buckets.items())
        bad = axis.sums((at, counts[bucket]) for at, counts in failed)
        hatched[seconds(bound)] = [*map(int, bad)]
        rows[seconds(bound)] = [int(one + other) for one, other in zip(good, bad, strict=True)]
    return WebHeatMap("Durations, failed runs hatched", axis.starts_at, axis.step_seconds, rows, hatched, marks)


def _errors(
    request: WebRequest, detail: JobDetail, axis: TimeAxis, marks: Sequence[tuple[float, str]]
) -> Iterator[Block]:
    """Yield the failed runs by error, and the errors; nothing without."""
    name, errors = detail.totals.name, ErrorGroups(request.installation)
    since = detail.starts_at
    groups = errors.of_class(name, since)[:_MAX_GROUPS]
    if not groups:
        return
    bars: dict[str, list[float]] = {}
    for group in groups:
        of_group = ((each.at, each.attempts) for each in errors.minutes(group.id, since, detail.ends_at))
        bars[f"{group.error_class} {place_of_frame(group.frame)}".strip()] = axis.sums(of_group)
    rows: list[list[Cell]] = [
        [
            WebLink(group.error_class, error_path(group.id)),
            place_of_frame(group.frame),
            request.unquoted(group.message),
            *(group.jobs, group.attempts, group.deaths),
            WebTime(group.first_at),
            WebTime(group.last_at),
        ]
        for group in groups
    ]
    columns = ("Error", "Where", "Message", "Jobs", "Attempts", "Dead", "First", "Last")
    yield _chart(f"Failures by error per {axis.step_name}", axis, bars, marks)
    yield WebTable("Errors", columns, rows)


def _first_runs(detail: JobDetail) -> dict[str, float]:
    """Return the start of the first minute of each release in the period."""
    first: dict[str, float] = {}
    for at, runs in sorted(detail.runs, key=itemgetter(0)):
        first.setdefault(runs.labels.get("release", ""), at)
    return first


def _releases(installation: Installation, detail: JobDetail) -> WebTable:
    first = _first_runs(detail)
    hosts: dict[str, set[str]] = {}
    for process in ProcessSet(installation):
        hosts.setdefault(process.app_version, set()).add(process.hostname)
    rows: list[list[Cell]] = [
        [
            release or "unknown",
            *(runs.processed, runs.failed, percent(runs.failed, runs.processed)),
            *(seconds(percentile(runs.run_buckets, DURATION_SECONDS, share)) for share in (0.5, 0.95)),
            runs.run_seconds,
            WebTime(first[release]),
            ", ".join(sorted(hosts.get(release, ()))[:_MAX_GROUPS]),
        ]
        for runs in detail.releases
        for release in [runs.labels.get("release", "")]
    ]
    columns = ("Release", "Runs", "Failed", "Failed %", "p50", "p95", "Seconds", "First run", "Running on")
    return WebTable("Releases", columns, rows, "No runs of a Python worker in this period.")


def _sources(installation: Installation, name: str, period: str) -> Iterator[Block]:
    minutes = min(PERIODS[period], HISTOGRAM_MINUTES)
    found = run_sources(minutes, name, config=installation)[:_MAX_SOURCES]
    rows: list[list[Cell]] = [[one.caller, one.tenant, one.runs, _spark(one.minutes)] for one in found]
    if rows:
        yield WebTable("Who pushed them", ("Caller", "Tenant", "Runs", "Trend"), rows)


def _spark(minutes: Sequence[int]) -> WebSpark:
    axis = TimeAxis.over(0, len(minutes) * _MINUTE, most=_SPARKS)
    return WebSpark(axis.sums((number * _MINUTE, runs) for number, runs in enumerate(minutes)))


def _jobs(installation: Installation, metrics: Sequence[Series], name: str) -> Iterator[Block]:
    """Yield where the jobs of a class are now. Counts of long lists that take too long are lower bounds."""
    running = sum(work.record.display_class == name for work in WorkSet(installation))
    rows: list[list[Cell]] = [["Running", WebLink(f"{running:,}", _where("running", name)), ""]]
    ran_in = {one.labels.get("queue", "") for one in metrics}
    queues = [QUEUE + queue for queue in counters(installation).queues if queue in ran_in or not ran_in]
    places = [(where, place_of(installation, where)) for where in (*queues, *SETS)]
    filled = [(where, place) for where, place in places if place is not None and len(place)]
    ends, soon = time.monotonic() + _COUNT_SECONDS, installation.config.clock.now() + _MINUTE
    for number, (where, place) in enumerate(filled):
        left_ms = max(1.0, (ends - time.monotonic()) * 1000 / (len(filled) - number))
        chunk = place.scan(JobFilter(name=name), budget_ms=left_ms)
        count, due = len(chunk.entries), ""
        if not count and chunk.complete:
            continue
        if where in ("retry", "schedule"):
            due = f"{sum(job.score <= soon for job in chunk.entries):,} in the next minute"
        shown = f"{count:,}" if chunk.complete else f"at least {count:,} of {chunk.total:,} jobs of all classes"
        rows.append([_TITLES.get(where, where), WebLink(shown, _where(where, name)), due])
    held = Controls(installation).count_held(name)
    if held:
        rows.append(["Held", WebLink(f"{held:,}", _where(HELD.rstrip(":"), name)), ""])
    yield WebTable("Jobs now", ("Where", "Jobs", "Due"), rows)


_TITLES = {"retry": "To retry", "schedule": "Scheduled", "dead": "Dead"}


def _where(where: str, name: str) -> str:
    return jobs_path(where, **{"class": name})


def _budget(installation: Installation, name: str) -> Iterator[Block]:
    levels = ServiceLevels.read(installation, class_name=name)
    rows = [[each.urgency, each.shard, *_scores(each.scores, levels.objective)] for each in levels.classes]
    if rows:
        yield WebTable("Error budget of 3 days", ("Urgency", "Shard", *_SCORE_COLUMNS), rows)


# ------------------------------------------------------------------------------- texts


def percent(part: float, whole: float) -> str:
    """Return a share: ``72 %``, ``0.4 %``; empty of nothing."""
    return percent_text(part / whole) if whole else ""


def place_of_frame(frame: Frame) -> str:
    """Return a frame: ``shop.py:37 tax_rate``; empty if unknown."""
    return f"{frame.file}:{frame.line} {frame.function}" if frame.file else ""


def seconds(duration: float | None) -> str:
    """Return a duration: ``20 ms``, ``8.5 s``, ``12 s``; empty if unknown."""
    if duration is None:
        return ""
    return f"> {seconds_text(DURATION_SECONDS[-1])}" if math.isinf(duration) else seconds_text(duration)


def _choices(path: str, field: str, chosen: str, texts: Mapping[str, str] | None = None, **more: str) -> WebLinks:
    """Return the values of a query field as links; the chosen one as text."""
    shown = texts or dict(zip(PERIODS, PERIODS, strict=True))
    return WebLinks(
        [
            text if value == chosen else WebLink(text, with_fields(path, **{field: value}, **more))
            for value, text in shown.items()
        ]
    )


TAB = WebTab("classes", "Classes", PATH, within=NOW, routes={"": index, "/{name}": show})
