"""A filter over a set of any size: each refresh continues the scan where the previous one stopped.

1. A refresh scans for BUDGET_MS. The matches since the start of the scan are shown, with its progress.
2. After a complete scan, the next refresh starts a new scan. Until that is complete too, the matches of the complete
   scan are shown, without jobs that have left the set.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from offsider.inspector import JobFilter, JobSet, SetEntry

#: Time budget of one refresh.
BUDGET_MS = 500
#: A scan stops after this many matches: more pages are useless.
MOST = 10_000


@dataclass
class _Scan:
    cursor: str = ""
    scanned: int = 0
    found: dict[bytes, SetEntry] = field(default_factory=dict[bytes, SetEntry])


@dataclass(frozen=True)
class Matches:
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

    def scan(self) -> Matches:
        """Continue the scan and return the matches. Raises RedisFailure."""
        scan = self._scan
        room = MOST - len(scan.found)
        chunk = self._jobs.scan(JobFilter(text=self.text), scan.cursor, budget_ms=BUDGET_MS, most=room)
        scan.cursor = chunk.cursor
        scan.scanned += chunk.scanned
        scan.found |= {entry.raw: entry for entry in chunk.entries}
        if not scan.cursor or len(scan.found) >= MOST:
            self._finished, self._scan = scan, _Scan()
            return Matches(_sorted(scan), "" if not scan.cursor else f"the first {len(scan.found):,}")
        if self._finished is None:
            return Matches(_sorted(scan), f"scanned {min(scan.scanned, chunk.total):,} of {chunk.total:,}")
        return Matches(_sorted(self._finished), "")

    def still_there(self, entry: SetEntry) -> bool:
        """Whether a matching job is still in the set."""
        return any(other.raw == entry.raw for other in self._jobs.fetch(entry.score, entry.jid or None))


def _sorted(scan: _Scan) -> list[SetEntry]:
    return sorted(scan.found.values(), key=lambda entry: entry.score)
