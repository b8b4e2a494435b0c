"""The search box: finds the page of a job, class, error, queue or process by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from offsider.config.addresses import JOBS, class_path, error_path, job_path, jobs_path, queue_path
from offsider.config.installation import Installation
from offsider.inspector import ErrorGroups, ProcessSet, Queue
from offsider.screens.counters import last_hour
from offsider.screens.processes import process_path

_JID = re.compile(r"[0-9a-f]{24}")
_MAX_GROUPS = 500


def address_of(installation: Installation, text: str) -> str:
    """Return the address of what a text names, in upper or lower case; else that of a search in all jobs.

    A jid, a queue, a class that ran within the last hour, an error class, and a process or its host have pages of
    their own.
    """
    wanted = text.strip()
    if not wanted:
        return JOBS
    return next(_addresses(installation, wanted.casefold()), jobs_path(text=wanted))


def _addresses(installation: Installation, wanted: str) -> Iterator[str]:
    """Yield the addresses of all pages with this name, the most specific first."""
    if _JID.fullmatch(wanted):
        yield job_path(wanted)
    yield from (queue_path(queue.name) for queue in Queue.all(installation) if queue.name.casefold() == wanted)
    yield from (class_path(job.name) for job in last_hour(installation).jobs if job.name.casefold() == wanted)
    groups = ErrorGroups(installation).page(0, _MAX_GROUPS)
    groups = [group for group in groups if group.error_class.casefold() == wanted]
    yield from (error_path(group.id) for group in groups[:1] if len(groups) == 1)
    yield from (jobs_path(error=group.error_class) for group in groups[:1])
    processes = (process.identity for process in ProcessSet(installation))
    yield from (process_path(identity) for identity in processes if identity.casefold().startswith(wanted))
