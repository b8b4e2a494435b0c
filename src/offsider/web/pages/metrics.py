"""The pages of metrics: classes by execution time, and details of one class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any
from urllib.parse import urlencode

from offsider.core.series import ReleaseRuns
from offsider.fleet.service_levels import cpu_bound
from offsider.inspector import BOUNDS_MS, PERIODS, DeployMark, FleetMetrics, JobMetrics, JobTotals
from offsider.inspector.controls import Controls
from offsider.inspector.job_metrics import HISTOGRAM_PERIODS, expired_count
from offsider.web.charts import Columns
from offsider.web.charts.figure import duration
from offsider.web.display import MAX_LETTERS, cut
from offsider.web.filters import address
from offsider.web.page_request import PageRequest
from offsider.web.results import BadRequest, Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment

#: Number of lines by default, and at most.
_TOP = 5
_MAX_LINES = 8
_MAX_ROWS = 50
_LONGEST_NAME = 500
_SPARKS = 30
#: Labels of the buckets by upper bound; the last bucket has no upper bound.
_LAST = f"> {duration(BOUNDS_MS[-1])}"
_BOUNDS = [*map(duration, BOUNDS_MS), _LAST]
_LABELS = [*(f"≤ {duration(bound)}" for bound in BOUNDS_MS), _LAST]
_SHARES = (50, 95, 99)


def index(request: PageRequest) -> Page:
    """Show the classes with the most execution time, and a line for each selected class."""
    period = request.choice("period", tuple(PERIODS), "1h")
    name = request.text("name")
    top = JobMetrics.top(period, name_contains=name, config=request.installation)
    columns = Columns.over(top.starts_at, top.ends_at, top.step_seconds)
    drawn = _drawn(request, top.jobs)
    order = {job.name: position for position, job in enumerate(drawn)}
    toggle = partial(_toggle, [*order], period, name)
    # Selected classes are listed even if they are not among the first, so that users can deselect them.
    rows = [*top.jobs[:_MAX_ROWS], *(job for job in top.jobs[_MAX_ROWS:] if job.name in order)]
    data = {
        "period": period,
        "periods": {each: address("/metrics", period=each, name=name) for each in PERIODS},
        "name": name,
        "live": period == "1h",
        "columns": _columns(columns),
        "lines": [{"name": cut(job.name), "values": columns.sums(job.series)} for job in drawn],
        "marks": _marks(top.marks),
        "jobs": [_row(job, order.get(job.name), period, columns) | {"toggle_path": toggle(job.name)} for job in rows],
        "most_lines": _MAX_LINES,
        "total": len(top.jobs),
        "processed": sum(top.processed.values()),
        "failed": sum(top.failed.values()),
    }
    return Page("metrics", "layout.metrics", data)


def show(request: PageRequest) -> Page:
    """Show the execution times of a class."""
    name = request.path("name")
    period = request.choice("period", tuple(HISTOGRAM_PERIODS), "1h")
    detail = JobMetrics.of(name, period, config=request.installation)
    columns = Columns.over(detail.starts_at, detail.ends_at, 60)
    path = f"/metrics/{segment(name)}"
    data = {
        "name": name,
        "period": period,
        "periods": {each: address(path, period=each) for each in HISTOGRAM_PERIODS},
        "live": period == "1h",
        **_totals(detail.totals),
        "expired": expired_count(name, config=request.installation),
        "within": _within(detail.durations),
        "releases": [_release(runs) for runs in detail.releases],
        "bounds": _BOUNDS,
        "labels": _LABELS,
        "histogram": list(detail.histogram),
        "columns": _columns(columns),
        "counts": _folded(columns, detail.buckets),
        "marks": _marks(detail.marks),
        "cpu_share": cpu_bound(FleetMetrics.read(request.installation, class_name=name)).get(name),
        "controlled": any(control.subject == name for control in Controls(request.installation).here()),
        "controls_path": f"/controls/{segment(name)}",
        "retries_path": address("/retries", name=name),
        "dead_path": address("/dead", name=name),
    }
    return Page("metrics_job", "layout.metrics", data, subject=cut(name), tab="/metrics")


def _release(runs: ReleaseRuns) -> dict[str, Any]:
    return {
        "name": cut(runs.release),
        "processed": runs.processed,
        "failed": runs.failed,
        "run_seconds": runs.run_seconds,
        "within": _within(runs.histogram),
    }


def _drawn(request: PageRequest, jobs: Sequence[JobTotals]) -> list[JobTotals]:
    """Return the selected classes in table order, or the first ones."""
    chosen = request.query.all("job")
    if any(len(name) > _LONGEST_NAME for name in chosen):
        raise BadRequest("error.too_long", name="job", most=_LONGEST_NAME)
    return [job for job in jobs if job.name in set(chosen)][:_MAX_LINES] if chosen else list(jobs[:_TOP])


def _toggle(drawn: Sequence[str], period: str, filtered: str, name: str) -> str:
    """Return the address that selects or deselects a class; empty if the maximum is selected."""
    wanted = [each for each in drawn if each != name] if name in drawn else [*drawn, name]
    if len(wanted) > _MAX_LINES or len(name) > _LONGEST_NAME:
        return ""
    # Without a name the first classes would be selected again.
    fields = [("period", period), ("name", filtered), *(("job", each) for each in wanted or [""])]
    return f"/metrics?{urlencode(fields, errors='replace')}"


def _row(job: JobTotals, position: int | None, period: str, columns: Columns) -> dict[str, Any]:
    # Histograms are stored for eight hours.
    detail = period if period in HISTOGRAM_PERIODS else "8h"
    sparks = Columns.over(columns.starts_at, columns.ends_at, columns.step_seconds * -(-columns.count // _SPARKS))
    return {
        "name": cut(job.name, MAX_LETTERS),
        "path": address(f"/metrics/{segment(job.name)}", period=detail),
        "position": position,
        **_totals(job),
        "sparks": sparks.sums(job.series),
    }


def _totals(job: JobTotals) -> dict[str, Any]:
    return {
        "processed": job.processed,
        "success": job.success,
        "failed": job.failed,
        "total_seconds": job.total_seconds,
        "average_seconds": job.average_ms / 1000,
    }


def _columns(columns: Columns) -> dict[str, Any]:
    return {"starts_at": columns.starts_at, "step_seconds": int(columns.step_seconds), "count": columns.count}


def _marks(marks: Sequence[DeployMark]) -> list[dict[str, Any]]:
    return [{"at": mark.at, "label": cut(mark.label)} for mark in marks]


def _folded(columns: Columns, buckets: Any) -> list[list[int]]:
    """Return the 26 counts of each column."""
    series = [{at: counts[bucket] for at, counts in buckets.items()} for bucket in range(len(_LABELS))]
    by_bucket = [columns.sums(each) for each in series]
    return [[int(sums[at]) for sums in by_bucket] for at in range(columns.count)]


def _within(histogram: Sequence[int]) -> list[dict[str, Any]]:
    """Return the bounds of the percentiles in `_SHARES`."""
    total = sum(histogram)
    return [{"percent": share, "label": _bound(histogram, total * share / 100)} for share in _SHARES] if total else []


def _bound(histogram: Sequence[int], runs: float) -> str:
    return next(label for label, seen in zip(_LABELS, accumulate(histogram), strict=True) if seen >= runs)


ROUTES = [
    Route("GET", "/metrics", LOOK, index),
    Route("GET", "/metrics/{name}", LOOK, show),
]
