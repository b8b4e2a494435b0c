"""The tab Busy: every worker process, and below it the jobs that it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from offsider.cli.plain import listed_arguments, plain
from offsider.cli.quantities import ago, duration, megabytes
from offsider.cli.top.sheet import Action, Row, Sheet, View, paged
from offsider.core.errors import EmbeddedProcess
from offsider.inspector import Process, ProcessSet, Work, WorkSet
from offsider.wiring.config import Config

_COLUMNS = ("PROCESS, JOB", "BUSY", "SINCE", "MEMORY", "QUEUES, ARGUMENTS")


class Busy:
    """Processes, which take signals, and running jobs, which are only to be seen."""

    title = "Busy"

    def __init__(self, config: Config) -> None:
        self._config = config
        self.actions = {
            "Q": Action("Quiet", "told to take no further jobs", asks=True, act=_quiet),
            "T": Action("Terminate", "told to stop", asks=True, act=_stop),
        }

    def read(self, view: View) -> Sheet:
        running: defaultdict[str, list[Work]] = defaultdict(list)
        for work in WorkSet(self._config):
            running[work.process].append(work)
        now = self._config.clock.now()
        rows = [row for process in ProcessSet(self._config) for row in _rows(process, running[process.identity], now)]
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
