"""A finding: a problem of a server, its jobs or its workers, with its consequences and the fix.

The pages, ``offsider now`` and ``doctor``, alerts and the boot checks of workers show findings. This module imports
no check: see `offsider.inspector.findings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any

from offsider.config.web_tab import WebButton, WebLink

#: Kinds of findings; the pages show them as a word in capitals.
KINDS = (
    "broken",
    "slow",
    "late",
    "stopped",
    "crash",
    "poison",
    "stuck",
    "held",
    "limited",
    "stranded",
    "server",
    "config",
)


class Severity(IntEnum):
    """Severity of a finding, and of an examination: the number is the exit code of ``offsider doctor``."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True)
class Finding:
    """One finding of a check. `warn`, `error` and `fatal` are shorthands for the severities.

    Attributes:
        name: name of the check: ``"eviction"``.
        what: description of the finding. If it begins with the subject and a colon, pages show the subject before it.
        severity: severity.
        cause: why it matters, or the likely cause.
        actions: the fixes, if possible commands.
        kind: one of `KINDS`.
        subject: what it is about, such as a queue, a class or a process; empty for the server.
        details: further facts, one line each.
        numbers: its figures by name, such as ``{"jobs": 3}``.
        since: when it began, in epoch seconds; None if unknown.
        harm: urgency times unsatisfied runs per minute; findings are sorted by it.
        buttons: links and actions for the pages, one or two.
        servers: servers with this finding; empty for all examined servers.
        muted_until: an operator has muted it until then, in epoch seconds.
        muted_by: this operator.
        fatal: whether workers refuse to start because of it.
    """

    name: str
    what: str
    severity: Severity
    _: KW_ONLY
    cause: str
    actions: tuple[str, ...]
    kind: str = "config"
    subject: str = ""
    details: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)
    since: float | None = None
    harm: float = 0.0
    buttons: tuple[WebLink | WebButton, ...] = field(default=(), hash=False)
    servers: tuple[str, ...] = ()
    muted_until: float | None = None
    muted_by: str = ""
    fatal: bool = False

    @property
    def id(self) -> str:
        """The unique id among the findings of a server: the same problem keeps it."""
        return f"{self.name}:{self.subject}" if self.subject else self.name

    @property
    def statement(self) -> str:
        """The description without the subject, if it begins with that."""
        return self.what.removeprefix(f"{self.subject}: ") if self.subject else self.what

    @property
    def sentence(self) -> str:
        """The finding as one line, for a log."""
        return f"{self.what}: {self.cause}; fix: {'; '.join(self.actions)}"


warn = partial(Finding, severity=Severity.WARN)
"""A `Finding` that is a warning."""
error = partial(Finding, severity=Severity.ERROR)
fatal = partial(Finding, severity=Severity.ERROR, fatal=True)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity."""
    return max((finding.severity for finding in findings), default=Severity.OK)


def listing(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return findings as JSON values, with the highest severity of those that are not muted."""
    found = [*findings]
    heard = [each for each in found if each.muted_until is None]
    return {"severity": worst(heard).name.lower(), "findings": [as_json(each) for each in found]}


def as_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON values: its fields, without `Finding.fatal`, and its id."""
    return {
        "id": finding.id,
        "name": finding.name,
        "kind": finding.kind,
        "severity": finding.severity.name.lower(),
        "subject": finding.subject,
        "what": finding.what,
        "cause": finding.cause,
        "details": [*finding.details],
        "numbers": dict(finding.numbers),
        "since": finding.since,
        "harm": finding.harm,
        "actions": [*finding.actions],
        "buttons": [_button_json(each) for each in finding.buttons],
        "servers": [*finding.servers],
        "muted_until": finding.muted_until,
        "muted_by": finding.muted_by,
    }


def from_json(stored: Mapping[str, Any]) -> Finding:
    """The inverse of `as_json`. Raises KeyError, TypeError or ValueError for anything else."""
    fields = {name: value for name, value in stored.items() if name not in ("id", "severity", "buttons")}
    for name in ("actions", "details", "servers"):
        fields[name] = tuple(map(str, fields[name]))
    buttons = tuple(_button(each) for each in stored["buttons"])
    return Finding(severity=Severity[str(stored["severity"]).upper()], buttons=buttons, **fields)


def _button_json(button: WebLink | WebButton) -> dict[str, Any]:
    shown = {name: value for name, value in vars(button).items() if value is not None}
    return shown | {"fields": dict(button.fields)} if isinstance(button, WebButton) else shown


def _button(stored: Mapping[str, Any]) -> WebLink | WebButton:
    return WebButton(**stored) if "fields" in stored else WebLink(**stored)
