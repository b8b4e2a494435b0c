"""The tabs Home, Busy, Queues and Metrics. Scheduled, Retries and Dead are in `set_tabs`."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

from offsider.cli.queues import is_served, served_queues
from offsider.cli.text import ago, duration, grouped, listed_arguments, megabytes, plain
from offsider.cli.top.table import Action, Row, Table, View, paged
from offsider.config.installation import Installation
from offsider.core.errors import EmbeddedProcess
from offsider.core.wording import counted
from offsider.inspector import JobMetrics, Process, ProcessSet, Queue, ServerInfo, Stats, Work, WorkSet

_SAMPLES = 120
_COUNTERS = ("COUNTER", "NOW")


class Home:
    """The counters."""

    title = "Home"
    actions: Mapping[str, Action] = {}

    def __init__(self, here: Installation) -> None:
        self._here = here
        self._rates: deque[float] = deque(maxlen=_SAMPLES)

    def read(self, view: View) -> Table:
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
        return Table(sheet.columns, sheet.rows, sheet.total, samples=tuple(self._rates))


_PROCESSES = ("PROCESS, JOB", "BUSY", "SINCE", "MEMORY", "QUEUES, ARGUMENTS")
_SKIPPED = "skipped (embedded)"


class Busy:
    """Processes, which accept signals, and running jobs, which are read-only."""

    title = "Busy"

    def __init__(self, here: Installation) -> None:
        self._here = here
        self.actions = {
            "Q": Action("Quiet", "quiet sent to {}", asks=True, act=_quiet, noun="process", skipped=_SKIPPED),
            "T": Action("Stop", "stop sent to {}", asks=True, act=_stop, noun="process", skipped=_SKIPPED),
        }

    def read(self, view: View) -> Table:
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


def _quiet(process: Process) -> bool:
    try:
        process.quiet()
    except EmbeddedProcess:
        return False
    return True


def _stop(process: Process) -> bool:
    try:
        process.stop()
    except EmbeddedProcess:
        return False
    return True


_QUEUES = ("QUEUE", "SIZE", "LATENCY", "STATE")


class Queues:
    """Every queue, by name."""

    title = "Queues"

    def __init__(self, here: Installation) -> None:
        self._here = here
        self.actions = {
            "p": Action("Pause", "{} paused or unpaused", asks=False, act=self._toggle),
            "D": Action("Clear", "{} cleared", asks=True, act=self._clear),
        }

    def read(self, view: View) -> Table:
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
                summary.name,
            )
            for summary in sorted(Stats.read(self._here).queue_summaries, key=lambda summary: summary.name)
        ]
        return paged(_QUEUES, rows, view)

    def _toggle(self, name: str) -> bool:
        queue = Queue(name, self._here)
        if queue.paused:
            queue.unpause()
        else:
            queue.pause()
        return True

    def _clear(self, name: str) -> bool:
        Queue(name, self._here).clear()
        return True


_JOBS = ("JOB", "RUNS", "FAILED", "TOTAL", "AVERAGE")


class Metrics:
    """Job classes, sorted by total run time."""

    title = "Metrics"
    actions: Mapping[str, Action] = {}

    def __init__(self, here: Installation) -> None:
        self._here = here

    def read(self, view: View) -> Table:
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
