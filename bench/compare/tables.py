"""Formats the figures as Markdown tables. ``~`` marks a figure whose repeats were all disturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.compare.contestant import Contestant
from bench.compare.stats import Rows, Summary

Cell = Callable[[Rows, str], str]


@dataclass(frozen=True)
class Column:
    """A column: its heading, and a function that returns a contestant's cell."""

    head: str
    cell: Cell


def figure(test: str, name: str, head: str, digits: int = 0, *, times: float = 1) -> Column:
    """Format a figure: the median, and the range if it is wide enough to be visible."""
    return Column(head, lambda rows, contestant: written(rows.summary(test, contestant, name), digits, times))


def written(summary: Summary | None, digits: int = 0, times: float = 1) -> str:
    if summary is None:
        return "–"  # noqa: RUF001  # a dash, as a table has it
    middle, low, high = (f"{value * times:,.{digits}f}" for value in (summary.median, summary.low, summary.high))
    span = " (n = 1)" if summary.count == 1 else "" if low == high else f" ({low}–{high})"  # noqa: RUF001
    return f"{'~' if summary.noisy else ''}{middle}{span}"


TABLES: tuple[tuple[str, tuple[Column, ...]], ...] = (
    (
        "No-op jobs per second",
        (
            figure("drain", "rate", "one process"),
            figure("drain2", "rate", "two processes"),
            figure("pinned", "rate", "one, on one CPU"),
            figure("pinned2", "rate", "two, on a CPU each"),
            figure("log", "rate", "one, job log at INFO"),
        ),
    ),
    (
        "CPU time and commands of a no-op job, one process",
        (
            figure("drain", "worker_us", "CPU of the worker, us", 1),
            figure("drain", "server_us", "CPU of the server, us", 1),
            figure("drain", "commands", "commands", 2),
            figure("drain", "reads", "reads of the server's sockets", 2),
            figure("drain", "middle", "jobs/s, middle 80 %"),
            figure("drain", "jobs", "jobs in a run"),
        ),
    ),
    (
        "Jobs of 10 ms, one process, jobs per second",
        (
            figure("sleep10", "rate", "concurrency 10"),
            figure("sleep10", "rate", "of ideal, %", times=100 / 1_000),
            figure("sleep100", "rate", "concurrency 100"),
            figure("sleep100", "rate", "of ideal, %", times=100 / 10_000),
            figure("sleep100", "worker_us", "CPU of the worker, us", 1),
        ),
    ),
    (
        "Pushed by one producer, jobs per second",
        (
            figure("push", "rate", "one by one"),
            figure("push", "producer_cpu_us", "CPU of the producer, us", 1),
            figure("push", "commands", "commands", 1),
            figure("apush", "rate", "one by one, by a coroutine"),
            figure("bulk", "rate", "in bulk"),
        ),
    ),
    (
        "From push to start with an idle worker, ms",
        (
            figure("latency", "p50", "p50", 2),
            figure("latency", "p99", "p99", 2),
            figure("latency", "silence", "first after 3 s of silence", 2),
        ),
    ),
    (
        "Idle worker at concurrency 10",
        (
            figure("memory", "processes", "processes"),
            figure("memory", "rss_mb", "RSS, MB"),
            figure("memory", "pss_mb", "PSS, MB"),
            figure("memory", "idle_cpu", "CPU, %", 2),
            figure("memory", "idle_commands", "commands/s", 1),
            figure("memory", "queued_mb", "server, MB for 10,000 queued jobs", 1),
        ),
    ),
    (
        "`kill -9` of a worker and all its processes during 200 jobs of 50 ms, replaced immediately",
        (
            figure("kill", "running", "running when killed"),
            figure("kill", "lost", "not run"),
            figure("kill", "doubled", "ran to the end twice"),
            figure("kill", "last_seconds", "last job ended after, s", 1),
            figure("kill", "patience", "waited, s"),
        ),
    ),
)

KILLED = "not run {patience} after `kill -9`"
SHORT = (
    figure("drain", "rate", "no-op jobs/s, one process"),
    figure("drain2", "rate", "two"),
    figure("sleep100", "rate", "10 ms jobs/s at concurrency 100"),
    figure("push", "rate", "pushes/s"),
    figure("latency", "p50", "push to start, ms", 2),
    figure("kill", "lost", KILLED),
)


def table(rows: Rows, contestants: Sequence[Contestant], columns: Sequence[Column]) -> str:
    """Return a table with one row for each contestant that has a figure; empty without any."""
    lines = [_row("", *(column.head for column in columns)), _row("---", *("---:" for _ in columns))]
    for contestant in contestants:
        cells = [column.cell(rows, contestant.name) for column in columns]
        if any(cell != "–" for cell in cells):  # noqa: RUF001
            lines.append(_row(contestant.name, *cells))
    return "\n".join(lines) if len(lines) > 2 else ""


def all_tables(rows: Rows, contestants: Sequence[Contestant]) -> str:
    written_tables = [(title, table(rows, contestants, columns)) for title, columns in TABLES]
    return "\n\n".join(f"**{title}**\n\n{text}" for title, text in written_tables if text)


def short_table(rows: Rows, contestants: Sequence[Contestant]) -> str:
    """Return the table for the README, with medians only."""
    columns = [Column(column.head.format(patience=patience(rows)), _median_alone(column.cell)) for column in SHORT]
    return table(rows, contestants, columns)


def patience(rows: Rows) -> str:
    """Return how long the test waited for the jobs of a killed worker."""
    seconds = {rows.value("kill", name, "patience") for name in rows.contestants("kill")} - {None}
    return f"{seconds.pop():g} s" if len(seconds) == 1 else "some time"


def settings_table(contestants: Sequence[Contestant]) -> str:
    lines = [_row("", "versions", "settings", "when a process dies"), _row(*["---"] * 4)]
    for one in contestants:
        versions = ", ".join(one.requirements).replace("==", " ")
        lines.append(_row(one.name, versions or "see above", one.settings, one.safety))
    return "\n".join(lines)


def _median_alone(cell: Cell) -> Cell:
    return lambda rows, contestant: cell(rows, contestant).partition(" (")[0]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
