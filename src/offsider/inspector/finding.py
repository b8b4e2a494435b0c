"""A finding: what is wrong with a server, its workers or its jobs, why it matters and what to do.

`offsider doctor` shows all findings. A worker refuses to start because of the fatal ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial


class Severity(IntEnum):
    """Severity of a finding; the number is the exit code of ``offsider doctor``."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True)
class Finding:
    """One finding of a check.

    Attributes:
        id: name of the check, for filters and alerts: ``"eviction"``.
        severity: severity.
        what: description of the finding.
        since: when it began, in epoch seconds; None if unknown.
        subject: what it is about, such as a queue, a class or a process; empty for the server.
        numbers: its figures by name, such as ``{"jobs": 3}``.
        cause: why it matters; empty if all is well.
        actions: what to do, if possible commands; empty if all is well.
        servers: servers with this finding; empty for all examined servers.
        fatal: whether workers refuse to start because of it.
    """

    id: str
    severity: Severity
    what: str
    since: float | None = None
    subject: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)
    cause: str = ""
    actions: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    fatal: bool = False

    @property
    def sentence(self) -> str:
        """The finding as one line, for a log."""
        return f"{self.what}: {self.cause}; fix: {'; '.join(self.actions)}"


def ok(name: str, what: str) -> Finding:
    return Finding(name, Severity.OK, what)


def _problem(
    severity: Severity,
    name: str,
    what: str,
    *,
    cause: str,
    action: str,
    since: float | None = None,
    subject: str = "",
    numbers: Mapping[str, float] | None = None,
    fatal: bool = False,
) -> Finding:
    return Finding(name, severity, what, since, subject, numbers or {}, cause, (action,), fatal=fatal)


warn = partial(_problem, Severity.WARN)
error = partial(_problem, Severity.ERROR)
fatal = partial(_problem, Severity.ERROR, fatal=True)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity."""
    return max((finding.severity for finding in findings), default=Severity.OK)
