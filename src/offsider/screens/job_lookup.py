"""Find a stored job by its location and its key in an address.

A job of a set is found by ``score|jid|digest``, or by ``score|jid`` like in Sidekiq's pages; a job of a queue, or of a
list of an extension, by ``position|jid``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from offsider.config.installation import Installation
from offsider.inspector import (
    Chunk,
    Found,
    JobRecord,
    Quarantine,
    QuarantinedJob,
    SetEntry,
    Work,
    WorkSet,
    search_everywhere,
)
from offsider.inspector.scan import PAGE_BUDGET_MS, deadline
from offsider.inspector.search import BUSY, QUARANTINE, SETS, place_of


@dataclass(frozen=True)
class JobLocation:
    """A stored job and its location.

    Attributes:
        where: a set, ``queue:<name>``, ``held:<key>``, ``busy`` or ``quarantine``.
        key: its key there.
        record: the job; a `SetEntry` in a set.
        at: when it is due, died or was quarantined, in epoch seconds; None elsewhere.
        work: the run of a running job.
    """

    where: str
    key: str
    record: JobRecord
    at: float | None = None
    work: Work | None = None


def jid_of(where: str, key: str) -> str:
    """Return the job's id in a key, to search for a job that moved."""
    name = key.partition("|")[2] or key
    return name.rpartition("|")[0] or name if where in SETS else name


def find(installation: Installation, where: str, key: str) -> JobLocation | None:
    """Return the job at a location and key; None if it is not there, or the location is unknown."""
    if where == BUSY:
        work = WorkSet(installation).find_work(key)
        return None if work is None else JobLocation(where, work.jid, work.record, work=work)
    place = place_of(installation, where)
    record = None if place is None else place.entry(key)
    if place is None or record is None:
        return None
    at = record.at if isinstance(record, SetEntry | QuarantinedJob) else None
    return JobLocation(where, place.key_of(record), record, at=at)


def find_by_jid(
    installation: Installation, jid: str, budget_ms: float = math.inf
) -> tuple[JobLocation | None, Chunk[Found]]:
    """Return a job by its id, wherever it is, and the step of the search for it.

    The quarantine is searched after all other places.
    """
    cursor, is_over = "", deadline(budget_ms)
    while True:  # in steps, to end with the step that finds it
        chunk = search_everywhere(jid, cursor, min(budget_ms, PAGE_BUDGET_MS), installation)
        for found in chunk.entries:
            if found.record.jid == jid:
                return find(installation, found.where, found.key), chunk
        if chunk.complete or is_over():
            break
        cursor = chunk.cursor
    kept = None if chunk.cursor else Quarantine(installation).find_job(jid, budget_ms)
    return None if kept is None else JobLocation(QUARANTINE, kept.id, kept, at=kept.at), chunk
