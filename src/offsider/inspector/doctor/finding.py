"""The result of a check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """Severity of a finding; the number is the exit code of ``offsider doctor``."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True)
class Finding:
    """One finding of a check.

    Attributes:
        check: name of the check, for filters and alerts: ``"eviction"``.
        severity: severity.
        what: description of the finding.
        why: why it matters; empty if all is well.
        fix: how to fix it, if possible a command; empty if all is well.
        servers: servers with this finding; empty for all examined servers.
        fatal: whether workers refuse to start because of it.
    """

    check: str
    severity: Severity
    what: str
    why: str = ""
    fix: str = ""
    servers: tuple[str, ...] = ()
    fatal: bool = False

    @property
    def sentence(self) -> str:
        """The finding as one line, for a log."""
        return f"{self.what}: {self.why}; fix: {self.fix}"


def ok(check: str, what: str) -> Finding:
    return Finding(check, Severity.OK, what)


def warn(check: str, what: str, *, why: str, fix: str) -> Finding:
    return Finding(check, Severity.WARN, what, why, fix)


def error(check: str, what: str, *, why: str, fix: str) -> Finding:
    return Finding(check, Severity.ERROR, what, why, fix)


def fatal(check: str, what: str, *, why: str, fix: str) -> Finding:
    return Finding(check, Severity.ERROR, what, why, fix, fatal=True)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity."""
    return max((finding.severity for finding in findings), default=Severity.OK)
