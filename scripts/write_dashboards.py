"""Write the Grafana dashboards of deploy/grafana; ``--check`` only reports whether they are outdated.

A panel is a few lines here and sixty in a dashboard, so this script keeps all panels consistent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "grafana"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "[$__rate_interval]"
#: Selects one scrape job: a server may be scraped twice, through the web UI and through its workers.
ONE = 'job="$job"'
QUEUES = f'{ONE}, name=~"$queue"'
RUNS = f'{ONE}, queue=~"$queue"'
CLASS = f'{ONE}, class=~"$class"'
SECONDS = "sidekiq_jobs_completion_seconds"
WAITED = "sidekiq_jobs_queue_duration_seconds"
SHARD = f'{ONE}, shard=~"$shard"'
PAGES = {"overview": "Overview", "shards": "Shards", "queues": "Queues", "job": "Jobs"}
#: Below: more threads than needed; between: well used; above: too few.
ZONE = ((None, "yellow"), (0.23, "green"), (0.43, "red"))


@dataclass(frozen=True)
class Query:
    """One PromQL expression, and the legend of its lines."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        kind: timeseries, stat, table or heatmap.
        width: number of columns, out of 24.
        link: target of a click on a line: a page, and the variable that receives the line's label.
        zoned: draw the thresholds as zones behind the lines.
    """

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    help: str = ""
    stacked: bool = False
    link: tuple[str, str, str] | None = None
    thresholds: Sequence[tuple[float | None, str]] = ((None, "green"),)
    most: float | None = None
    zoned: bool = False


@dataclass(frozen=True)
class Dashboard:
    """One file."""

    name: str
    title: str
    help: str
    variables: Sequence[dict[str, Any]]
    rows: Sequence[tuple[str, Sequence[Panel]]]
    tags: Sequence[str] = field(default=("offsider",))


def by_queue(metric: str) -> str:
    return f"sum by (name) ({metric}{{{QUEUES}}})"


def quantiles(metric: str, selector: str) -> list[Query]:
    return [
        Query(
            f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{{selector}}}{RATE})))",
            f"{round(share * 100)} %",
        )
        for share in (0.5, 0.95, 0.99)
    ]


def unsatisfied(selector: str, by: str = "") -> str:
    """Return the share of runs that failed, started too late or took too long; 0 if nothing has run."""
    group = f" by ({by})" if by else ""
    runs = f"sum{group} (rate({SECONDS}_count{{{selector}}}{RATE}))"
    return f"({runs} - sum{group} (rate(sidekiq_jobs_satisfied_total{{{selector}}}{RATE}))) / clamp_min({runs}, 1e-9)"


def apdex(selector: str, by: str = "") -> str:
    return f"1 - {unsatisfied(selector, by)}"


def burn(selector: str, by: str = "") -> str:
    return f"{unsatisfied(selector, by)} / scalar(1 - max(sidekiq_apdex_objective{{{ONE}}}))"


def used(over: str, selector: str = SHARD) -> str:
    """Return the share of time in which the threads of a shard run jobs."""
    ran, there = (
        f"sum by (shard) (rate(sidekiq_shard_{what}_seconds_total{{{selector}}}{over}))"
        for what in ("execution", "thread")
    )
    return f"{ran} / clamp_min({there}, 1e-9)"


TO_SHARD = ("shards", "shard", "shard")
TO_QUEUE = ("queues", "queue", "name")
TO_QUEUE_OF_RUNS = ("queues", "queue", "queue")
TO_CLASS = ("job", "class", "class")

NOW = [
    Panel(
        "Runs per second",
        [Query(f"sum(rate(sidekiq_processed_jobs_total{{{ONE}}}{RATE}))")],
        "ops",
        "stat",
        3,
    ),
    Panel(
        "Failure rate",
        [
            Query(
                f"sum(rate(sidekiq_failed_jobs_total{{{ONE}}}{RATE}))"
                f" / clamp_min(sum(rate(sidekiq_processed_jobs_total{{{ONE}}}{RATE})), 1e-9)"
            )
        ],
        "percentunit",
        "stat",
        3,
        thresholds=((None, "green"), (0.05, "orange"), (0.2, "red")),
    ),
    Panel(
        "Busy threads",
        [Query(f"sum(sidekiq_busy_workers{{{ONE}}}) / clamp_min(sum(sidekiq_workers{{{ONE}}}), 1)")],
        "percentunit",
        "stat",
        3,
        thresholds=((None, "green"), (0.8, "orange"), (0.95, "red")),
    ),
    Panel("Waiting", [Query(f"sum(sidekiq_enqueued_jobs{{{ONE}}})")], "short", "stat", 3),
    Panel(
        "Longest wait",
        [Query(f"max(sidekiq_queue_latency_seconds{{{ONE}}})")],
        "s",
        "stat",
        3,
        thresholds=((None, "green"), (60, "orange"), (600, "red")),
    ),
    Panel("Scheduled", [Query(f"sum(sidekiq_scheduled_jobs{{{ONE}}})")], "short", "stat", 3),
    Panel("Retries", [Query(f"sum(sidekiq_retry_jobs{{{ONE}}})")], "short", "stat", 3),
    Panel("Dead", [Query(f"sum(sidekiq_dead_jobs{{{ONE}}})")], "short", "stat", 3),
]

OVERVIEW = Dashboard(
    "overview",
    "Offsider / Overview",
    "All queues and workers of one server. A click on a line leads to its queue.",
    [],
    [
        ("Now", NOW),
        (
            "Queues",
            [
                Panel(
                    "Jobs waiting",
                    [Query(f"sum by (name) (sidekiq_queue_enqueued_jobs{{{ONE}}})", "{{name}}")],
                    link=TO_QUEUE,
                ),
                Panel(
                    "Queue latency",
                    [Query(f"max by (name) (sidekiq_queue_latency_seconds{{{ONE}}})", "{{name}}")],
                    "s",
                    link=TO_QUEUE,
                ),
                Panel(
                    "Total execution time",
                    [Query(f"sum by (queue) (rate({SECONDS}_sum{{{ONE}}}{RATE}))", "{{queue}}")],
                    "s",
                    help="Seconds of running jobs in each second: how many threads a queue keeps busy.",
                    stacked=True,
                    link=TO_QUEUE_OF_RUNS,
                ),
                Panel(
                    "Runs per second",
                    [Query(f"sum by (queue) (rate({SECONDS}_count{{{ONE}}}{RATE}))", "{{queue}}")],
                    "ops",
                    link=TO_QUEUE_OF_RUNS,
                ),
                Panel(
                    "Failures per second",
                    [Query(f"sum by (queue) (rate(sidekiq_jobs_failed_total{{{ONE}}}{RATE}))", "{{queue}}")],
                    "ops",
                    link=TO_QUEUE_OF_RUNS,
                ),
                Panel(
                    "Running now",
                    [Query(f"sum by (name) (sidekiq_queue_busy_workers{{{ONE}}})", "{{name}}")],
                    stacked=True,
                    link=TO_QUEUE,
                ),
            ],
        ),
        (
            "SLOs",
            [
                Panel(
                    "Apdex by urgency",
                    [Query(apdex(ONE, "urgency"), "{{urgency}}")],
                    "percentunit",
                    help="The share of runs that succeed, and start and finish within their targets.",
                    most=1,
                ),
                Panel(
                    "Error budget: burn rate by urgency",
                    [Query(burn(ONE, "urgency"), "{{urgency}}")],
                    help="At 1 the budget lasts for its window; alerts begin at 6 for hours, and 14.4 for an hour.",
                    thresholds=((None, "green"), (1, "orange"), (14.4, "red")),
                ),
                Panel(
                    "Shard utilization",
                    [Query(used(RATE, ONE), "{{shard}}")],
                    "percentunit",
                    help="The share of time in which threads run jobs. The green zone is 23 to 43 %.",
                    link=TO_SHARD,
                    thresholds=ZONE,
                    zoned=True,
                ),
            ],
        ),
        (
            "Sets",
            [
                Panel(
                    "Scheduled, retries, dead",
                    [
                        Query(f"sum(sidekiq_scheduled_jobs{{{ONE}}})", "scheduled"),
                        Query(f"sum(sidekiq_retry_jobs{{{ONE}}})", "to retry"),
                        Query(f"sum(sidekiq_dead_jobs{{{ONE}}})", "dead"),
                    ],
                ),
                Panel(
                    "Scheduler lag",
                    [Query(f"max by (set) (sidekiq_scheduler_lag_seconds{{{ONE}}})", "{{set}}")],
                    "s",
                    help="Delay of the oldest due job. Above a few seconds, no scheduler moves due jobs.",
                ),
                Panel(
                    "Paused queues",
                    [Query(f"sum by (name) (sidekiq_queue_paused{{{ONE}}})", "{{name}}")],
                    most=1,
                    link=TO_QUEUE,
                ),
            ],
        ),
        (
            "Workers",
            [
                Panel(
                    "Threads",
                    [
                        Query(f"sum(sidekiq_concurrency{{{ONE}}})", "threads"),
                        Query(f"sum(sidekiq_busy_workers{{{ONE}}})", "busy"),
                    ],
                ),
                Panel(
                    "Processes by host",
                    [Query(f"sum by (host, quiet) (sidekiq_host_processes{{{ONE}}})", "{{host}}, quiet: {{quiet}}")],
                    stacked=True,
                ),
                Panel(
                    "Memory by host",
                    [Query(f"sum by (host) (sidekiq_host_processes_memory_usage_bytes{{{ONE}}})", "{{host}}")],
                    "bytes",
                    stacked=True,
                ),
                Panel(
                    "Memory of Redis",
                    [
                        Query(f"max(sidekiq_redis_memory_used_bytes{{{ONE}}})", "used"),
                        Query(f"max(sidekiq_redis_memory_max_bytes{{{ONE}}})", "limit (0: none)"),
                    ],
                    "bytes",
                ),
                Panel(
                    "Execution time by class",
                    [Query(f"topk(20, sum by (class) (increase({SECONDS}_sum{{{ONE}}}[$__range])))", "{{class}}")],
                    "s",
                    "table",
                    16,
                    help="The classes with the most execution time in the range shown.",
                    link=TO_CLASS,
                ),
            ],
        ),
    ],
)

SHARDS = Dashboard(
    "shards",
    "Offsider / Shards",
    "One shard, or some. Workers without a shard are under All. A click on a class leads to its jobs.",
    [{"name": "shard", "label": "Shard", "query": f"label_values(sidekiq_shard_processes{{{ONE}}}, shard)"}],
    [
        (
            "Now",
            [
                Panel(
                    "Apdex",
                    [Query(apdex(SHARD))],
                    "percentunit",
                    "stat",
                    6,
                    help="The share of runs that succeed, and start and finish within their targets.",
                    thresholds=((None, "red"), (0.9, "orange"), (0.99, "green")),
                ),
                Panel(
                    "Worst queue latency vs. target",
                    [Query(f"max(sidekiq_shard_latency_ratio{{{SHARD}}})")],
                    "percentunit",
                    "stat",
                    6,
                    help="Latency of the worst queue, divided by its target.",
                    thresholds=((None, "green"), (0.5, "orange"), (1, "red")),
                ),
                Panel("Processes", [Query(f"sum(sidekiq_shard_processes{{{SHARD}}})")], "short", "stat", 6),
                Panel(
                    "Desired processes",
                    [Query(f"sum(sidekiq_shard_desired_replicas{{{SHARD}}})")],
                    "short",
                    "stat",
                    6,
                    help="The number of processes for an autoscaler.",
                ),
            ],
        ),
        (
            "Utilization",
            [
                Panel(
                    "Shard utilization",
                    [
                        Query(used("[1h]"), "{{shard}}, 1 h"),
                        Query(used("[10m]"), "{{shard}}, 10 min"),
                        Query(used(RATE), "{{shard}}, instant"),
                    ],
                    "percentunit",
                    width=16,
                    help="The share of time in which threads run jobs. Green, 23 to 43 %: well used. "
                    "Below it for a long time: too many threads. Above: too few, bursts wait.",
                    thresholds=ZONE,
                    zoned=True,
                ),
                Panel(
                    "Processes, current and desired",
                    [
                        Query(f"sum by (shard) (sidekiq_shard_processes{{{SHARD}}})", "{{shard}}"),
                        Query(f"sum by (shard) (sidekiq_shard_desired_replicas{{{SHARD}}})", "{{shard}}, desired"),
                    ],
                ),
            ],
        ),
        (
            "SLOs",
            [
                Panel(
                    "Apdex by urgency",
                    [Query(apdex(SHARD, "urgency"), "{{urgency}}")],
                    "percentunit",
                    help="The share of runs that succeed, and start and finish within their targets.",
                    most=1,
                ),
                Panel(
                    "Error budget: burn rate by category",
                    [Query(burn(SHARD, "feature_category"), "{{feature_category}}")],
                    help="At 1 the budget lasts for its window.",
                ),
                Panel("Time from enqueued to started", quantiles(WAITED, SHARD), "s"),
            ],
        ),
        (
            "Work",
            [
                Panel(
                    "Total execution time",
                    [Query(f"sum by (class) (rate({SECONDS}_sum{{{SHARD}}}{RATE}))", "{{class}}")],
                    "s",
                    help="Seconds of running jobs in each second: how many threads a class keeps busy.",
                    stacked=True,
                    link=TO_CLASS,
                ),
                Panel(
                    "Runs per second",
                    [Query(f"sum by (class) (rate({SECONDS}_count{{{SHARD}}}{RATE}))", "{{class}}")],
                    "ops",
                    stacked=True,
                    link=TO_CLASS,
                ),
                Panel(
                    "Unsatisfied runs",
                    [Query(unsatisfied(SHARD, "class"), "{{class}}")],
                    "percentunit",
                    help="The share of runs that failed, started too late or took too long.",
                    link=TO_CLASS,
                    most=1,
                ),
                Panel(
                    "Threads",
                    [
                        Query(f"sum by (shard) (sidekiq_shard_workers{{{SHARD}}})", "{{shard}}"),
                        Query(f"sum by (shard) (sidekiq_shard_busy_workers{{{SHARD}}})", "{{shard}}, busy"),
                    ],
                ),
            ],
        ),
    ],
)

QUEUE = Dashboard(
    "queues",
    "Offsider / Queues",
    "One queue, or a group of queues. A click on a class leads to its jobs.",
    [{"name": "queue", "label": "Queue", "query": f"label_values(sidekiq_queue_enqueued_jobs{{{ONE}}}, name)"}],
    [
        (
            "Waiting",
            [
                Panel("Jobs waiting", [Query(by_queue("sidekiq_queue_enqueued_jobs"), "{{name}}")]),
                Panel(
                    "Queue latency",
                    [
                        Query(by_queue("sidekiq_queue_latency_seconds"), "{{name}}"),
                        Query(by_queue("sidekiq_queue_latency_target_seconds"), "{{name}}, target"),
                    ],
                    "s",
                ),
                Panel(
                    "Time from enqueued to started",
                    quantiles(WAITED, RUNS),
                    "s",
                    help="Of started runs; the queue latency is of a job that has not started.",
                ),
            ],
        ),
        (
            "Running",
            [
                Panel(
                    "Runs per second",
                    [Query(f"sum by (class) (rate({SECONDS}_count{{{RUNS}}}{RATE}))", "{{class}}")],
                    "ops",
                    stacked=True,
                    link=TO_CLASS,
                ),
                Panel(
                    "Total execution time",
                    [Query(f"sum by (class) (rate({SECONDS}_sum{{{RUNS}}}{RATE}))", "{{class}}")],
                    "s",
                    help="Seconds of running jobs in each second: how many threads a class keeps busy.",
                    stacked=True,
                    link=TO_CLASS,
                ),
                Panel(
                    "Running now",
                    [Query(f"sum by (class) (sidekiq_running_jobs{{{RUNS}}})", "{{class}}")],
                    stacked=True,
                    link=TO_CLASS,
                ),
                Panel(
                    "Duration, 95th percentile",
                    [
                        Query(
                            f"histogram_quantile(0.95, sum by (le, class) (rate({SECONDS}_bucket{{{RUNS}}}{RATE})))",
                            "{{class}}",
                        )
                    ],
                    "s",
                    link=TO_CLASS,
                ),
                Panel(
                    "Failures per second",
                    [Query(f"sum by (class) (rate(sidekiq_jobs_failed_total{{{RUNS}}}{RATE}))", "{{class}}")],
                    "ops",
                    link=TO_CLASS,
                ),
                Panel(
                    "Longest running job",
                    [Query(f"max by (name) (sidekiq_queue_max_processing_time_seconds{{{QUEUES}}})", "{{name}}")],
                    "s",
                ),
            ],
        ),
        (
            "Workers",
            [
                Panel("Processes", [Query(by_queue("sidekiq_queue_processes"), "{{name}}")]),
                Panel(
                    "Threads that serve it",
                    [
                        Query(by_queue("sidekiq_queue_workers"), "{{name}}"),
                        Query(by_queue("sidekiq_queue_busy_workers"), "{{name}}, busy"),
                    ],
                ),
                Panel(
                    "Execution time by class",
                    [Query(f"topk(20, sum by (class) (increase({SECONDS}_sum{{{RUNS}}}[$__range])))", "{{class}}")],
                    "s",
                    "table",
                    help="The classes with the most execution time in the range shown.",
                    link=TO_CLASS,
                ),
            ],
        ),
    ],
)

JOB = Dashboard(
    "job",
    "Offsider / Jobs",
    "One class of jobs, in all its queues.",
    [{"name": "class", "label": "Class", "query": f"label_values({SECONDS}_count{{{ONE}}}, class)"}],
    [
        (
            "Now",
            [
                Panel("Runs per second", [Query(f"sum(rate({SECONDS}_count{{{CLASS}}}{RATE}))")], "ops", "stat", 4),
                Panel(
                    "Failure rate",
                    [
                        Query(
                            f"sum(rate(sidekiq_jobs_failed_total{{{CLASS}}}{RATE}))"
                            f" / clamp_min(sum(rate({SECONDS}_count{{{CLASS}}}{RATE})), 1e-9)"
                        )
                    ],
                    "percentunit",
                    "stat",
                    4,
                    thresholds=((None, "green"), (0.05, "orange"), (0.2, "red")),
                ),
                Panel("Running now", [Query(f"sum(sidekiq_running_jobs{{{CLASS}}}) or vector(0)")], "short", "stat", 4),
                Panel(
                    "Average duration",
                    [
                        Query(
                            f"sum(rate({SECONDS}_sum{{{CLASS}}}{RATE}))"
                            f" / clamp_min(sum(rate({SECONDS}_count{{{CLASS}}}{RATE})), 1e-9)"
                        )
                    ],
                    "s",
                    "stat",
                    4,
                ),
                Panel(
                    "Share of CPU",
                    [
                        Query(
                            f"sum(rate(sidekiq_jobs_cpu_seconds_sum{{{CLASS}}}{RATE}))"
                            f" / clamp_min(sum(rate({SECONDS}_sum{{{CLASS}}}{RATE})), 1e-9)"
                        )
                    ],
                    "percentunit",
                    "stat",
                    4,
                    help="CPU time divided by execution time. Above a third, more threads in one process hardly help.",
                ),
                Panel(
                    "Total execution time",
                    [Query(f"sum(increase({SECONDS}_sum{{{CLASS}}}[$__range]))")],
                    "s",
                    "stat",
                    4,
                    help="In the range shown.",
                ),
            ],
        ),
        (
            "Time",
            [
                Panel("Duration", quantiles(SECONDS, CLASS), "s"),
                Panel("Time from enqueued to started", quantiles(WAITED, CLASS), "s"),
                Panel(
                    "Durations",
                    [Query(f"sum by (le) (increase({SECONDS}_bucket{{{CLASS}}}{RATE}))", "{{le}}")],
                    "s",
                    "heatmap",
                ),
                Panel(
                    "Total execution time",
                    [Query(f"sum by (class) (rate({SECONDS}_sum{{{CLASS}}}{RATE}))", "{{class}}")],
                    "s",
                    help="Seconds of running jobs in each second: how many threads it keeps busy.",
                    stacked=True,
                ),
                Panel(
                    "CPU time",
                    [Query(f"sum by (class) (rate(sidekiq_jobs_cpu_seconds_sum{{{CLASS}}}{RATE}))", "{{class}}")],
                    "s",
                    stacked=True,
                ),
                Panel(
                    "Runs per second by queue",
                    [Query(f"sum by (queue) (rate({SECONDS}_count{{{CLASS}}}{RATE}))", "{{queue}}")],
                    "ops",
                    stacked=True,
                    link=TO_QUEUE_OF_RUNS,
                ),
            ],
        ),
        (
            "Failures and SLOs",
            [
                Panel(
                    "Apdex",
                    [Query(apdex(CLASS, "class"), "{{class}}")],
                    "percentunit",
                    help="The share of runs that succeed, and start and finish within their targets.",
                    most=1,
                ),
                Panel(
                    "Failures per second",
                    [Query(f"sum by (class) (rate(sidekiq_jobs_failed_total{{{CLASS}}}{RATE}))", "{{class}}")],
                    "ops",
                    width=8,
                ),
                Panel(
                    "Retries per second",
                    [Query(f"sum by (class) (rate(sidekiq_jobs_retried_total{{{CLASS}}}{RATE}))", "{{class}}")],
                    "ops",
                    width=8,
                ),
            ],
        ),
    ],
)

DASHBOARDS = (OVERVIEW, SHARDS, QUEUE, JOB)


def written(dashboard: Dashboard) -> str:
    """Return the JSON file of a dashboard."""
    return json.dumps(_dashboard(dashboard), indent=2, ensure_ascii=False) + "\n"


def _dashboard(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"offsider-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.help,
        "tags": list(dashboard.tags),
        "timezone": "",
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [_page_link(name, title) for name, title in PAGES.items() if name != dashboard.name],
        "templating": {"list": [_source(), _variable(_JOB), *(_variable(each) for each in dashboard.variables)]},
        "annotations": {"list": []},
        "panels": _panels(dashboard.rows),
    }


_JOB = {"name": "job", "label": "Scrape", "query": "label_values(sidekiq_processes, job)"}


def _source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus", "current": {}}


def _variable(given: dict[str, Any]) -> dict[str, Any]:
    several = given["name"] != "job"
    return {
        "name": given["name"],
        "label": given["label"],
        "type": "query",
        "datasource": SOURCE,
        "definition": given["query"],
        "query": {"query": given["query"], "refId": given["name"]},
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
        **({"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if several else {"current": {}}),
    }


def _page_link(name: str, title: str) -> dict[str, Any]:
    return {
        "title": title,
        "type": "link",
        "icon": "dashboard",
        "url": f"/d/offsider-{name}",
        "includeVars": False,
        "keepTime": True,
    }


def _panels(rows: Sequence[tuple[str, Sequence[Panel]]]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    top = 0
    for title, panels in rows:
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
            }
        )
        top += 1
        left = 0
        height = 4 if panels[0].kind == "stat" else 8
        for panel in panels:
            if left + panel.width > 24:
                left, top = 0, top + height
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            made.append({"id": len(made) + 1, **_panel(panel), "gridPos": place})
            left += panel.width
        top += height
    return made


def _panel(panel: Panel) -> dict[str, Any]:
    instant = panel.kind in {"stat", "table"}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "instant": instant,
                "range": not instant,
                "format": {"table": "table", "heatmap": "heatmap"}.get(panel.kind, "time_series"),
            }
            for number, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
        **({"transformations": _TABLE} if panel.kind == "table" else {}),
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"value": value, "color": colour} for value, colour in panel.thresholds]
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        defaults["custom"] = {"fillOpacity": 30 if panel.stacked else 5, "lineWidth": 1, "stacking": stacking}
        if panel.zoned:
            defaults["custom"]["thresholdsStyle"] = {"mode": "area"}
    if panel.link is not None:
        defaults["links"] = [_data_link(panel.link, is_table=panel.kind == "table")]
    return defaults


def _data_link(link: tuple[str, str, str], *, is_table: bool) -> dict[str, Any]:
    page, variable, label = link
    value = f"${{__data.fields.{label}}}" if is_table else f"${{__field.labels.{label}}}"
    here = "var-datasource=${datasource}&var-job=${job}"
    url = f"/d/offsider-{page}?{here}&var-{variable}={value}&${{__url_time_range}}"
    return {"title": f"{PAGES[page]}: {value}", "url": url, "targetBlank": False}


_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"], "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "none"},
    "table": {"showHeader": True, "sortBy": [{"displayName": "Seconds", "desc": True}]},
    "heatmap": {"calculate": False, "yAxis": {"unit": "s"}, "color": {"mode": "scheme", "scheme": "Blues"}},
}
_TABLE = [
    {
        "id": "organize",
        "options": {"excludeByName": {"Time": True}, "renameByName": {"Value": "Seconds"}, "indexByName": {"class": 0}},
    }
]


def main(words: Sequence[str]) -> int:
    """Write outdated dashboards; with ``--check``, list them and return 1."""
    stale = [each for each in DASHBOARDS if _text(each) != written(each)]
    for dashboard in stale:
        if "--check" in words:
            print(f"deploy/grafana/{dashboard.name}.json is outdated: run python3 scripts/write_dashboards.py")
        else:
            _path(dashboard).write_text(written(dashboard))
    return 1 if stale and "--check" in words else 0


def _path(dashboard: Dashboard) -> Path:
    return FOLDER / f"{dashboard.name}.json"


def _text(dashboard: Dashboard) -> str:
    return _path(dashboard).read_text() if _path(dashboard).exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
