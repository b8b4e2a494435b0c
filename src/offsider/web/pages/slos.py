"""The page of SLOs: compliance by urgency, class and shard, and the utilization of each shard."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from offsider.core.characteristics import URGENCIES
from offsider.fleet import ClassLevel, Course, Score, ServiceLevels, ShardLoad, ShardLoads
from offsider.fleet.service_levels import WINDOWS, cpu_bound
from offsider.fleet.shard_load import ZONE
from offsider.inspector import FleetMetrics
from offsider.web.display import MAX_LETTERS, cut
from offsider.web.filters import address
from offsider.web.page_request import PageRequest
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment

Row: TypeAlias = "dict[str, Any]"

_MAX_ROWS = 200
_LAST = math.inf
#: Sort keys, worst rows first; rows without runs are last.
_SORTS: Mapping[str, Callable[[Row], Any]] = {
    "name": lambda row: row["name"],
    "total": lambda row: -row["total"],
    "apdex": lambda row: _LAST if row["apdex"] is None else row["apdex"],
    "budget": lambda row: _LAST if row["budget_left"] is None else row["budget_left"],
    "burn": lambda row: _LAST if row["burn"]["1h"] is None else -row["burn"]["1h"],
}

#: Window of the error budget that the page shows first.
BUDGET_WINDOW = "3d"


def index(request: PageRequest) -> Page:
    """Show urgencies and categories, then classes, then shards."""
    here = request.installation
    levels, series = ServiceLevels.read(here), FleetMetrics.read(here)
    loads, courses = ShardLoads.read(here, series=series), ShardLoads.courses(config=here)
    window = request.choice("window", WINDOWS, BUDGET_WINDOW)
    sort = request.choice("sort", tuple(_SORTS), "budget")
    hints = cpu_bound(series)
    rows = sorted((_class_row(each, levels, window, hints) for each in levels.classes), key=lambda row: row["name"])
    rows.sort(key=_SORTS[sort])
    urgencies = levels.by("urgency")
    data = {
        "window": window,
        "windows": {each: address("/slos", window=each, sort=sort) for each in WINDOWS},
        "sort": sort,
        "sorts": {each: address("/slos", window=window, sort=each) for each in _SORTS},
        "objective": levels.objective,
        "all": _row("", levels.total, levels, window),
        "urgencies": [
            _row(name, urgencies[name], levels, window) | _targets(request, name)
            for name in URGENCIES
            if name in urgencies
        ],
        "categories": [
            _row(cut(name), scores, levels, window)
            for name, scores in sorted(levels.by("feature_category").items())
            if name
        ],
        "classes": rows[:_MAX_ROWS],
        "total": len(rows),
        "zone": {"low": ZONE[0], "high": ZONE[1]},
        "shards": [_shard(load, courses.get(load.name)) for load in loads],
    }
    return Page("slos", "layout.slos", data)


def _class_row(level: ClassLevel, levels: ServiceLevels, window: str, hints: Mapping[str, float]) -> Row:
    return _row(cut(level.name, MAX_LETTERS), level.scores, levels, window) | {
        "path": f"/metrics/{segment(level.name)}",
        "urgency": level.urgency,
        "feature_category": level.feature_category,
        "shard": level.shard,
        "cpu_share": hints.get(level.name),
    }


def _row(name: str, scores: Mapping[str, Score], levels: ServiceLevels, window: str) -> Row:
    score = scores[window]
    return {
        "name": name,
        "total": score.total,
        "satisfied": score.satisfied,
        "failed": score.failed,
        "missed": score.missed,
        "apdex": score.apdex,
        "error_rate": score.error_rate,
        "budget_left": score.budget_left(levels.objective),
        "burn": {each: scores[each].burn(levels.objective) for each in WINDOWS},
    }


def _targets(request: PageRequest, urgency: str) -> Row:
    target = request.installation.config.slo.target(urgency)
    return {"queue_seconds": _promised(target.queue_seconds), "run_seconds": _promised(target.run_seconds)}


def _promised(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _shard(load: ShardLoad, course: Course | None) -> Row:
    return {
        "name": cut(load.name),
        "processes": load.processes,
        "desired": load.desired,
        "threads": load.threads,
        "busy": load.busy,
        "used": {"1h": load.used_hour, "10m": load.used_ten_minutes, "now": load.used_now},
        "pressure": load.pressure,
        "latest_queue": cut(load.latest_queue),
        "course": None if course is None else _course(course),
    }


def _course(course: Course) -> Row:
    def percents(values: Sequence[float | None]) -> list[float | None]:
        return [None if value is None else round(value * 100, 2) for value in values]

    return {
        "columns": {
            "starts_at": course.starts_at,
            "step_seconds": int(course.step_seconds),
            "count": len(course.instant),
        },
        "hour": percents(course.hour),
        "ten_minutes": percents(course.ten_minutes),
        "instant": percents(course.instant),
    }


ROUTES = [Route("GET", "/slos", LOOK, index)]
