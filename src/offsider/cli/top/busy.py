"""The tab Busy: every worker process, with its running jobs below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from offsider.cli.quantities import ago, duration, megabytes
from offsider.cli.sanitize import listed_arguments, plain
from offsider.cli.top.table import Action, Row, Table, View, paged
from offsider.config.installation import Installation
from offsider.core.errors import EmbeddedProcess
from offsider.inspector import Process, ProcessSet, Work, WorkSet

_COLUMNS = ("PROCESS, JOB", "BUSY", "SINCE", "MEMORY", "QUEUES, ARGUMENTS")
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
        return paged(_COLUMNS, rows, view)


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
