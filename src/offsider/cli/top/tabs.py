"""The tabs of ``offsider top``: their data and actions, independent of how they are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from offsider.cli.queues import is_served, served_queues
from offsider.cli.text import ago, duration, grouped, listed_arguments, megabytes, plain
from offsider.cli.top.filter import Filter
from offsider.config.installation import Installation
from offsider.core.errors import EmbeddedProcess, MalformedPayload, OffsiderError
from offsider.core.wording import counted
from offsider.inspector import (
    DeadSet,
    JobMetrics,
    JobSet,
    Process,
    ProcessSet,
    Queue,
    QueueSummary,
    RetrySet,
    ScheduledSet,
    ServerInfo,
    SetEntry,
    Stats,
    Work,
    WorkSet,
)


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        key: identifies the row across refreshes.
        cells: one text per column.
        subject: object of actions; None for a read-only row.
    """

    key: str
    cells: tuple[str, ...]
    subject: Any = None


@dataclass(frozen=True)
class TabTable:
    """One page of a table.

    Attributes:
        columns: column titles.
        rows: rows of this page.
        total: number of rows on all pages.
        note: text for the status line, such as the progress of a filter.
        samples: numbers of the sparkline, the latest last; empty without a sparkline.
    """

    columns: tuple[str, ...]
    rows: Sequence[Row]
    total: int
    note: str = ""
    samples: Sequence[float] = field(default=())


@dataclass(frozen=True)
class Action:
    """An action on rows, bound to a key.

    Attributes:
        verb: verb for the hint: ``"Delete"``.
        act: acts on one subject; returns the participle for the status line, such as ``"deleted"`` or ``"skipped"``.
        question: returns the confirmation for these rows; None for an action without one.
    """

    verb: str
    act: Callable[[Any], str]
    question: Callable[[Sequence[Row]], str] | None = None


@dataclass(frozen=True)
class View:
    """The visible part of a tab: page number from 0, page size, filter text."""

    page: int = 0
    size: int = 20
    text: str = ""

    def pages(self, total: int) -> int:
        """Return the number of pages of a table with ``total`` rows, at least 1."""
        return max(1, -(-total // self.size))

    def turned(self, step: int, total: int) -> View:
        """Return the view ``step`` pages on, but no further than the first or last page."""
        return replace(self, page=min(max(0, self.page + step), self.pages(total) - 1))


class Tab(ABC):
    """One tab of a server; ``actions`` are by key."""

    title: str
    actions: Mapping[str, Action] = {}

    def __init__(self, here: Installation) -> None:
        self._here = here

    @abstractmethod
    def read(self, view: View) -> TabTable:
        """Read the current data. Raises RedisFailure."""


def ask(verb: str) -> Callable[[Sequence[Row]], str]:
    """Return the usual question: the verb, and the first columns of the row or the number of rows."""

    def question(rows: Sequence[Row]) -> str:
        what = " ".join(rows[0].cells[:3]).strip() if len(rows) == 1 else counted(len(rows), "row")
        return f"{verb} {what}?"

    return question


def paged(columns: tuple[str, ...], rows: Sequence[Row], view: View) -> TabTable:
    """Return a page of these rows; the filter matches every cell."""
    wanted = view.text.casefold()
    found = [row for row in rows if any(wanted in cell.casefold() for cell in row.cells)] if wanted else rows
    start = view.page * view.size
    return TabTable(columns, found[start : start + view.size], len(found))


def _participle(
    act: Callable[[Any], object],
    done: str,
    *,
    skipped: str = "skipped",
    unless: type[OffsiderError] | tuple[()] = (),
) -> Callable[[Any], str]:
    """Make ``act`` return ``done``, or ``skipped`` for subjects that it returns False or raises ``unless`` for."""

    def guarded(subject: Any) -> str:
        try:
            return skipped if act(subject) is False else done
        except unless:
            return skipped

    return guarded


_SAMPLES = 120
_COUNTERS = ("COUNTER", "NOW")


class Home(Tab):
    """The counters."""

    title = "Home"

    def __init__(self, here: Installation) -> None:
        super().__init__(here)
        self._rates: deque[float] = deque(maxlen=_SAMPLES)

    def read(self, view: View) -> TabTable:
        stats, server = Stats.read(self._here), ServerInfo.read(self._here)
        self._rates.append(stats.processed_per_second)
        facts = {
            "Processed": f"{grouped(stats.processed)}  {stats.processed_per_second:,.1f} / s",
            "Failed": grouped(stats.failed),
            "Busy": f"{counted(stats.busy, 'job')} of {counted(stats.processes, 'worker')}",
            "Enqueued": grouped(stats.enqueued),
            "Latency of default": duration(stats.default_queue_latency_seconds),
            "Scheduled": grouped(stats.scheduled),
            "Retries": grouped(stats.retries),
            "Dead": grouped(stats.dead),
            "Server": f"{server.store} {server.version}, up {server.uptime_days} days",
            "Memory": f"{(server.used_memory_bytes or 0) // 1_000_000} MB",
            "Clients": grouped(server.connected_clients or 0),
        }
        sheet = paged(_COUNTERS, [Row(name, (name, fact.strip())) for name, fact in facts.items()], view)
        return TabTable(sheet.columns, sheet.rows, sheet.total, samples=tuple(self._rates))


_PROCESSES = ("PROCESS, JOB", "BUSY", "SINCE", "MEMORY", "QUEUES, ARGUMENTS")


class Busy(Tab):
    """Processes, which accept signals, and running jobs, which are read-only."""

    title = "Busy"
    actions: Mapping[str, Action] = {
        key: Action(
            verb,
            _participle(send, f"asked to {how}", skipped="skipped (embedded)", unless=EmbeddedProcess),
            ask(verb),
        )
        for key, verb, send, how in (("Q", "Quiet", Process.quiet, "be quiet"), ("T", "Stop", Process.stop, "stop"))
    }

    def read(self, view: View) -> TabTable:
        running: defaultdict[str, list[Work]] = defaultdict(list)
        for work in WorkSet(self._here):
            running[work.process].append(work)
        now = self._here.config.clock.now()
        rows = [row for process in ProcessSet(self._here) for row in _rows(process, running[process.identity], now)]
        return paged(_PROCESSES, rows, view)


def _rows(process: Process, running: Sequence[Work], now: float) -> Iterator[Row]:
    busy = f"{process.busy} of {process.concurrency}{' quiet' if process.is_quiet else ''}"
    since = ago(process.started_at or None, now)
    name = plain(f"{process.identity} {process.tag}".strip(), 40)
    memory, queues = megabytes(process.rss_kilobytes), plain(", ".join(process.queues), 40)
    yield Row(process.identity, (name, busy, since, memory, queues), process)
    for work in running:
        record = work.record
        job = plain(f"  {record.display_class} {record.jid}", 40)
        arguments = listed_arguments(record, 40)
        yield Row(f"{process.identity} {work.tid}", (job, "", duration(work.elapsed_seconds), "", arguments))


_QUEUES = ("QUEUE", "SIZE", "LATENCY", "STATE")


class Queues(Tab):
    """Every queue, by name."""

    title = "Queues"

    def __init__(self, here: Installation) -> None:
        super().__init__(here)
        self.actions = {
            "p": Action("Pause", self._toggle),
            "D": Action("Delete", self._delete, _question),
        }

    def read(self, view: View) -> TabTable:
        served = served_queues(self._here)
        rows = [
            Row(
                summary.name,
                (
                    plain(summary.name, 40),
                    grouped(summary.size),
                    duration(summary.latency_seconds),
                    "paused" if summary.paused else "" if is_served(summary.name, served) else "no worker",
                ),
                summary,
            )
            for summary in sorted(Stats.read(self._here).queue_summaries, key=lambda summary: summary.name)
        ]
        return paged(_QUEUES, rows, view)

    def _toggle(self, summary: QueueSummary) -> str:
        queue = Queue(summary.name, self._here)
        if queue.paused:
            queue.unpause()
            return "resumed"
        queue.pause()
        return "paused"

    def _delete(self, summary: QueueSummary) -> str:
        Queue(summary.name, self._here).clear()
        return "deleted"


def _question(rows: Sequence[Row]) -> str:
    jobs = sum(row.subject.size for row in rows)
    what = f"queue {rows[0].cells[0]}" if len(rows) == 1 else counted(len(rows), "queue")
    return f"Permanently delete {what} with {grouped(jobs)} {'job' if jobs == 1 else 'jobs'}?"


_JOBS = ("JOB", "RUNS", "FAILED", "TOTAL", "AVERAGE")


class Metrics(Tab):
    """Job classes, sorted by total run time."""

    title = "Metrics"

    def read(self, view: View) -> TabTable:
        jobs = sorted(JobMetrics.top("1h", config=self._here).jobs, key=lambda job: job.total_seconds, reverse=True)
        rows = [
            Row(
                job.name,
                (
                    plain(job.name, 50),
                    grouped(job.processed),
                    grouped(job.failed),
                    duration(job.total_seconds),
                    f"{job.average_ms:,.0f} ms",
                ),
            )
            for job in jobs
        ]
        return paged(_JOBS, rows, view)


class SetTab(Tab):
    """The tab of one sorted set.

    Args:
        jobs: the set.
        fails: whether its jobs have failed, so that it has a column for errors.
        newest_first: sort order, as in Sidekiq's page of dead jobs.
        actions: by key.
    """

    def __init__(
        self,
        title: str,
        jobs: JobSet,
        here: Installation,
        actions: Mapping[str, Action],
        *,
        fails: bool,
        newest_first: bool = False,
    ) -> None:
        super().__init__(here)
        self.title = title
        self.actions = actions
        self._jobs = jobs
        self._fails = fails
        self._newest_first = newest_first
        self._filter: Filter | None = None

    def read(self, view: View) -> TabTable:
        if view.text:
            return self._filtered(view)
        self._filter = None
        entries = self._jobs.page(view.page * view.size, view.size, newest_first=self._newest_first)
        return TabTable(self._columns, self._rows(entries), len(self._jobs))

    def _filtered(self, view: View) -> TabTable:
        if self._filter is None or self._filter.text != view.text:
            self._filter = Filter(self._jobs, view.text)
        found = self._filter.scan()
        entries = found.entries[::-1] if self._newest_first else found.entries
        start = view.page * view.size
        shown = [entry for entry in entries[start : start + view.size] if self._filter.still_there(entry)]
        return TabTable(self._columns, self._rows(shown), len(entries), note=found.note)

    @property
    def _columns(self) -> tuple[str, ...]:
        return ("WHEN", "QUEUE", "JOB", *(["ERROR"] if self._fails else []), "ARGUMENTS")

    def _rows(self, entries: Sequence[SetEntry]) -> list[Row]:
        now = self._here.config.clock.now()
        # Not only the key: malformed jobs have no ID.
        return [Row(f"{entry.key} {hash(entry.raw)}", self._cells(entry, now), entry) for entry in entries]

    def _cells(self, entry: SetEntry, now: float) -> tuple[str, ...]:
        attempts = f" ({entry.retry_count + 1})" if entry.retry_count is not None else ""
        name = "malformed" if entry.malformed else entry.display_class + attempts
        error = [plain(f"{entry.error_class}: {entry.error_message}".strip(": "), 40)] if self._fails else []
        arguments = _beginning(entry.unwrapped) if entry.malformed else listed_arguments(entry)
        return (ago(entry.at, now), plain(entry.queue, 12), plain(name, 30), *error, arguments)


def _beginning(raw: bytes) -> str:
    """Return the first bytes of a malformed job."""
    return plain(raw[:100].decode("utf-8", "replace"), 60)


def set_tabs(here: Installation) -> tuple[SetTab, SetTab, SetTab]:
    """Scheduled, Retries and Dead."""
    delete = Action("Delete", _participle(SetEntry.delete, "deleted"), ask("Delete"))
    retry = Action("Retry", _participle(SetEntry.retry, "enqueued", unless=MalformedPayload))
    enqueue = Action("Enqueue", _participle(SetEntry.add_to_queue, "enqueued", unless=MalformedPayload))
    kill = Action("Kill", _participle(_kill, "moved to the dead set"), ask("Kill"))
    return (
        SetTab("Scheduled", ScheduledSet(here), here, {"D": delete, "E": enqueue, "K": kill}, fails=False),
        SetTab("Retries", RetrySet(here), here, {"D": delete, "R": retry, "K": kill}, fails=True),
        SetTab("Dead", DeadSet(here), here, {"D": delete, "R": retry}, fails=True, newest_first=True),
    )


def _kill(entry: SetEntry) -> bool:
    return entry.kill("killed in offsider top")
