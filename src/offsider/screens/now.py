"""The first page: what is broken, since when, why, and what to do about it; then everything that runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from offsider.config.addresses import class_path, finding_path, queue_path
from offsider.config.web_tab import WebChart
from offsider.inspector import TopJobs
from offsider.inspector.events import EventLog
from offsider.inspector.finding import Finding, Severity
from offsider.inspector.findings import stored
from offsider.screens import plain
from offsider.screens.classes import by_harm
from offsider.screens.counters import HOUR_SECONDS, cache_of, counters, last_hour

if TYPE_CHECKING:
    from offsider.config.installation import Installation

#: Names of findings whose subject has a page. A stopped subject may also be a class or a periodic job.
_PAGES = {
    **dict.fromkeys(("broken", "slow", "held", "stranded"), class_path),
    **dict.fromkeys(("late", "paused", "quiet", "unserved"), queue_path),
}
#: Events that the chart marks, with their labels.
_TICKS = {
    "deploy": "",
    "process-died": "crash",
    "process-quiet": "quiet",
    "control-set": "control",
    "periodic-paused": "pause",
}
_MAX_TICKS = 200
#: Kinds of findings about classes and about queues, which are not normal then.
_CLASSES, _QUEUES = ("broken", "slow"), ("late", "stopped")
_TONES = {
    **dict.fromkeys(("broken", "slow", "crash", "poison"), "bad"),
    **dict.fromkeys(("late", "limited", "stranded"), "warn"),
    **dict.fromkeys(("stopped", "stuck", "held"), "info"),
}


def show(installation: Installation) -> dict[str, Any]:
    """Return the first page as JSON values, up to a second old: an incident has many viewers."""
    return cache_of(installation, _read).get()


def _read(installation: Installation) -> dict[str, Any]:
    found = cache_of(installation, stored).get()
    active = [finding for finding in found if finding.muted_until is None]
    muted = [finding for finding in found if finding.muted_until is not None]
    stats, hour = counters(installation), last_hour(installation)
    kinds = dict.fromkeys(finding.kind for finding in active)
    return {
        "findings": [_shown(finding) for finding in active],
        "muted": [_shown(finding) for finding in muted],
        "counts": {kind: sum(finding.kind == kind for finding in active) for kind in kinds},
        "processed_per_second": _rate(stats.processed_per_second),
        "failed_per_second": _rate(stats.failed_per_second),
        "waiting": stats.enqueued,
        "processes": stats.processes,
        "normal_classes": len({job.name for job in hour.jobs} - _subjects(active, _CLASSES)),
        "normal_queues": len({*stats.queues} - _subjects(active, _QUEUES)),
        "chart": plain.block(chart(installation)),
        "classes": plain.block(cache_of(installation, by_harm, HOUR_SECONDS).get()),
    }


def chart(installation: Installation) -> WebChart:
    """Return the runs of each minute of the last hour, with the deploys, deaths and pauses."""
    hour = last_hour(installation)
    minutes = sorted(hour.processed)
    failed = [hour.failed.get(at, 0) for at in minutes]
    succeeded = [hour.processed[at] - hour.failed.get(at, 0) for at in minutes]
    return WebChart(
        "Runs per minute",
        hour.starts_at,
        hour.step_seconds,
        {"Succeeded": succeeded, "Failed": failed},
        _marks(installation, hour),
        {"Failed": "bad"},
    )


def _marks(installation: Installation, hour: TopJobs) -> list[tuple[float, str]]:
    """Return the deploys of the hour, and its deaths and pauses by minute."""
    deploys = {mark.label: mark.at for mark in hour.marks}
    others: dict[int, tuple[float, list[str]]] = {}
    for event in reversed(EventLog(installation).read(since=hour.starts_at, kinds=_TICKS, count=_MAX_TICKS)):
        if event.kind == "deploy":
            deploys[event.subject] = event.at
        else:
            _, labels = others.setdefault(int(event.at // 60), (event.at, []))
            labels.append(_TICKS[event.kind])
    shown = [(at, ", ".join(dict.fromkeys(labels))) for at, labels in others.values()]
    return sorted([*shown, *((at, label) for label, at in deploys.items())])


def _rate(per_second: float) -> float:
    """Return a rate that processes have reported; 0 for one that is no number."""
    return per_second if plain.is_finite(per_second) else 0.0


def _subjects(findings: Sequence[Finding], kinds: Sequence[str]) -> set[str]:
    return {finding.subject for finding in findings if finding.kind in kinds}


def _shown(finding: Finding) -> dict[str, Any]:
    page = _PAGES.get(finding.name)
    severe = "bad" if finding.severity is Severity.ERROR else "warn"
    return {
        "id": finding.id,
        "kind": finding.kind,
        "tone": _TONES.get(finding.kind, severe),
        "subject": finding.subject if finding.statement != finding.what else "",  # not the ID of a batch
        "path": page(finding.subject) if page and finding.subject else finding_path(finding.id),
        "mute_path": finding_path(finding.id),
        "what": finding.statement,
        "cause": finding.cause,
        "details": [*finding.details],
        "numbers": {name: value for name, value in finding.numbers.items() if plain.is_finite(value)},
        "since": plain.moment(finding.since),
        "commands": [*finding.actions],
        "buttons": [plain.cell(button) for button in finding.buttons],
        "muted_until": plain.moment(finding.muted_until),
        "muted_by": finding.muted_by,
    }
