"""What one check has to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad it is; the number is the exit code of ``offsider doctor``."""

    OK = 0
    WARN = 1
    BAD = 2


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: the name of the check, for filters and alerts: ``"eviction"``.
        severity: how bad it is.
        what: what was found.
        why: why it matters; empty when all is well.
        way_out: what to do about it, a command where there is one; empty when all is well.
        servers: on which servers it was found, when not on all that were examined.
    """

    check: str
    severity: Severity
    what: str
    why: str = ""
    way_out: str = ""
    servers: tuple[str, ...] = ()


def ok(check: str, what: str) -> Finding:
    return Finding(check, Severity.OK, what)


def warn(check: str, what: str, *, why: str, way_out: str) -> Finding:
    return Finding(check, Severity.WARN, what, why, way_out)


def bad(check: str, what: str, *, why: str, way_out: str) -> Finding:
    return Finding(check, Severity.BAD, what, why, way_out)


def worst(findings: Iterable[Finding]) -> Severity:
    """The severity of the whole."""
    return max((finding.severity for finding in findings), default=Severity.OK)
