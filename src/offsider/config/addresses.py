"""Addresses of screens: the only place that builds links from one to another."""

from __future__ import annotations

from urllib.parse import urlencode

from offsider.core.segments import segment


class ScreenPath(str):
    """A path below the root of a server's pages, with its query. In JSON the root precedes it."""

    __slots__ = ()


NOW = "/"
JOBS = "/jobs"
FLEET = "/fleet"
LOG = "/log"
FINDINGS = "/now/findings"


def class_path(name: str) -> ScreenPath:
    """Return the address of a class."""
    return ScreenPath(f"/class/{segment(name)}")


def finding_path(finding: str) -> ScreenPath:
    """Return the address of a finding, by its id."""
    return ScreenPath(f"{FINDINGS}/{segment(finding)}")


def error_path(group: str) -> ScreenPath:
    """Return the address of a group of errors, by its id."""
    return ScreenPath(f"/error/{segment(group)}")


def job_path(jid: str) -> ScreenPath:
    """Return the address of a job, wherever it is."""
    return ScreenPath(f"/job/{segment(jid)}")


def stored_job_path(where: str, key: str) -> ScreenPath:
    """Return the address of a job by its place and its key there, which finds it at once."""
    return ScreenPath(f"/job/{segment(where)}/{segment(key)}")


def jobs_path(where: str = "", **filters: str) -> ScreenPath:
    """Return the address of a list of jobs.

    Args:
        where: one place, such as ``"dead"`` or ``"queue:default"``; empty for all.
        filters: fields of the filter, such as ``{"class": "Invoice"}``; empty ones are left out.
    """
    return with_fields(JOBS, where=where, **filters)


def queue_path(name: str) -> ScreenPath:
    """Return the address of the jobs that wait in a queue."""
    return jobs_path(f"queue:{segment(name)}")


def log_path(**filters: str) -> ScreenPath:
    """Return the address of the log, filtered."""
    return with_fields(LOG, **filters)


def with_fields(path: str, /, **fields: object) -> ScreenPath:
    """Return an address with query fields; empty ones and zeros are left out."""
    query = urlencode({name: value for name, value in fields.items() if value}, errors="replace")
    return ScreenPath(f"{path}?{query}" if query else path)
