"""A filter over a set that may be too large for one look: each look goes on where the one before stopped.

1. A look scans for a while. What was found since the first job of the set is shown, with how far the scan has come.
2. Once it is through, the next look begins anew, and what the finished scan has found is shown meanwhile; jobs
   that have left the set since are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from offsider.inspector import JobFilter, JobSet, SetEntry

#: How long one look scans.
LOOK_MS = 500
#: Beyond so many jobs a scan is as good as through: nobody turns so many pages.
MOST = 10_000


@dataclass
class _Scan:
    cursor: str = ""
    scanned: int = 0
    found: dict[bytes, SetEntry] = field(default_factory=dict[bytes, SetEntry])


@dataclass(frozen=True)
class Found:
    """The jobs that match, by their time, and how far the scan has come; ``note`` is empty when it saw all."""

    entries: list[SetEntry]
    note: str


class Hunt:
    """One filter over one set."""

    def __init__(self, jobs: JobSet, text: str) -> None:
        self.text = text
        self._jobs = jobs
        self._scan = _Scan()
        self._finished: _Scan | None = None

    def look(self) -> Found:
        """Scan on, and answer what is known. Raises RedisFailure."""
        scan = self._scan
        room = MOST - len(scan.found)
        chunk = self._jobs.scan(JobFilter(text=self.text), scan.cursor, budget_ms=LOOK_MS, most=room)
        scan.cursor = chunk.cursor
        scan.scanned += chunk.scanned
        scan.found |= {entry.raw: entry for entry in chunk.entries}
        if not scan.cursor or len(scan.found) >= MOST:
            self._finished, self._scan = scan, _Scan()
            return Found(_sorted(scan), "" if not scan.cursor else f"the first {len(scan.found):,}")
        if self._finished is None:
            return Found(_sorted(scan), f"looked at {min(scan.scanned, chunk.total):,} of {chunk.total:,}")
        return Found(_sorted(self._finished), "")

    def still_there(self, entry: SetEntry) -> bool:
        """Whether a job that was found is in the set now."""
        return any(other.raw == entry.raw for other in self._jobs.fetch(entry.score, entry.jid or None))


def _sorted(scan: _Scan) -> list[SetEntry]:
    return sorted(scan.found.values(), key=lambda entry: entry.score)
