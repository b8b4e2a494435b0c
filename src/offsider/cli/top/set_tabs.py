"""The tabs Scheduled, Retries and Dead: jobs with a time, and their actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from offsider.cli.text import ago, listed_arguments, plain
from offsider.cli.top.table import Action, Row, Table, View
from offsider.config.installation import Installation
from offsider.core.errors import MalformedPayload
from offsider.inspector import DeadSet, JobFilter, JobSet, RetrySet, ScheduledSet, SetEntry

# ----------------------------------------------------------------------------------------------------
# A filter over a set of any size: each refresh continues the scan where the previous one stopped.
#
# 1. A refresh scans for BUDGET_MS. The matches since the start of the scan are shown, with its progress.
# 2. After a complete scan, the next refresh starts a new scan. Until that is complete too, the matches of the complete
#    scan are shown, without jobs that have left the set.

#: Time budget of one refresh.
BUDGET_MS = 500
#: A scan stops after this many matches: nobody needs more pages.
MOST = 10_000


@dataclass
class _Scan:
    cursor: str = ""
    scanned: int = 0
    found: dict[bytes, SetEntry] = field(default_factory=dict[bytes, SetEntry])


@dataclass(frozen=True)
class Found:
    """The matching jobs, sorted by time; ``note`` is the progress of the scan, empty if it is complete."""

    entries: list[SetEntry]
    note: str


class Filter:
    """One filter over one set."""

    def __init__(self, jobs: JobSet, text: str) -> None:
        self.text = text
        self._jobs = jobs
        self._scan = _Scan()
        self._finished: _Scan | None = None

    def scan(self) -> Found:
        """Continue the scan and return the matches. Raises RedisFailure."""
        scan = self._scan
        room = MOST - len(scan.found)
        chunk = self._jobs.scan(JobFilter(text=self.text), scan.cursor, budget_ms=BUDGET_MS, most=room)
        scan.cursor = chunk.cursor
        scan.scanned += chunk.scanned
        scan.found |= {entry.raw: entry for entry in chunk.entries}
        if not scan.cursor or len(scan.found) >= MOST:
            self._finished, self._scan = scan, _Scan()
            return Found(_sorted(scan), "" if not scan.cursor else f"the first {len(scan.found):,}")
        if self._finished is None:
            return Found(_sorted(scan), f"scanned {min(scan.scanned, chunk.total):,} of {chunk.total:,}")
        return Found(_sorted(self._finished), "")

    def still_there(self, entry: SetEntry) -> bool:
        """Whether a matching job is still in the set."""
        return any(other.raw == entry.raw for other in self._jobs.fetch(entry.score, entry.jid or None))


def _sorted(scan: _Scan) -> list[SetEntry]:
    return sorted(scan.found.values(), key=lambda entry: entry.score)


class SetTab:
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
        self.title = title
        self.actions = actions
        self._jobs = jobs
        self._here = here
        self._fails = fails
        self._newest_first = newest_first
        self._filter: Filter | None = None

    def read(self, view: View) -> Table:
        if view.text:
            return self._filtered(view)
        self._filter = None
        entries = self._jobs.page(view.page * view.size, view.size, newest_first=self._newest_first)
        return Table(self._columns, self._rows(entries), len(self._jobs))

    def _filtered(self, view: View) -> Table:
        if self._filter is None or self._filter.text != view.text:
            self._filter = Filter(self._jobs, view.text)
        found = self._filter.scan()
        entries = found.entries[::-1] if self._newest_first else found.entries
        start = view.page * view.size
        shown = [entry for entry in entries[start : start + view.size] if self._filter.still_there(entry)]
        return Table(self._columns, self._rows(shown), len(entries), note=found.note)

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
    delete = Action("Delete", "{} deleted", asks=True, act=_delete)
    retry = Action("Retry", "{} moved to their queues", asks=False, act=_runnable(SetEntry.retry))
    enqueue = Action("Enqueue", "{} moved to their queues", asks=False, act=_runnable(SetEntry.add_to_queue))
    kill = Action("Kill", "{} moved to the dead set", asks=True, act=_kill)
    return (
        SetTab("Scheduled", ScheduledSet(here), here, {"D": delete, "E": enqueue, "K": kill}, fails=False),
        SetTab("Retries", RetrySet(here), here, {"D": delete, "R": retry, "K": kill}, fails=True),
        SetTab("Dead", DeadSet(here), here, {"D": delete, "R": retry}, fails=True, newest_first=True),
    )


def _delete(entry: SetEntry) -> bool:
    return entry.delete()


def _kill(entry: SetEntry) -> bool:
    return entry.kill("killed in offsider top")


def _runnable(move: Callable[[SetEntry], bool]) -> Callable[[SetEntry], bool]:
    """Wrap a move so that it returns False for malformed jobs, which stay in the set."""

    def act(entry: SetEntry) -> bool:
        try:
            return move(entry)
        except MalformedPayload:
            return False

    return act
