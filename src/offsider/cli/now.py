"""``offsider now``: what is broken, late, stopped or crashing, since when, why, and the next step."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from offsider.cli.command import (
    CONNECTION,
    JSON,
    MAX_LETTERS,
    ConnectionOptions,
    command,
    report_failed_servers,
    server,
)
from offsider.cli.text import plain, say, say_json
from offsider.inspector.finding import KINDS, Finding, listing, worst
from offsider.inspector.findings import stored
from offsider.inspector.findings.examination import by_harm, merged
from offsider.inspector.findings.wording import span

STYLES = {"warn": "yellow", "error": "red"}
_WIDTH = max(map(len, KINDS))
CANNOT_LOOK = 2
_HALF_A_DAY = 43_200


@command(*CONNECTION, server("Only this server of the configuration."), JSON)
def now(connection: ConnectionOptions, *, as_json: bool) -> int:
    """Show what is broken, since when, why, and what to do.

    A worker looks every ten seconds; without one this command looks itself. `offsider doctor` makes more checks.

    The exit code is 0 if all is well, 1 if there are warnings, 2 if there are errors. Muted findings do not count.
    """
    start = connection.installation()
    answers, away = connection.each_server(start, stored)
    findings = by_harm(merged(answers, list(start.config.servers)))
    heard = [each for each in findings if each.muted_until is None]
    if as_json:
        say_json(json.dumps(listing(findings), indent=2))
    else:
        show(findings)
    report_failed_servers(away, "cannot look at")
    return CANNOT_LOOK if away else worst(heard)


def show(findings: Sequence[Finding]) -> None:
    """Print the number of findings of each kind, then each finding."""
    counts = Counter(each.kind for each in findings)
    summary = "  ".join(f"{kind.upper()} {counts[kind]}" for kind in KINDS if counts[kind])
    say(summary or "Nothing is broken, late or stopped.")
    for each in findings:
        say("")
        show_one(each, each.kind.upper(), _WIDTH)


def show_one(finding: Finding, label: str, width: int) -> None:
    """Print a finding: a label, what and since when, its facts, and the next steps."""
    style: dict[str, Any] = (
        {"dim": True} if finding.muted_until else {"fg": STYLES.get(finding.severity.name.lower()), "bold": True}
    )
    servers = f"{', '.join(finding.servers)}: " if finding.servers else ""
    head = "   ".join(filter(None, (f"{servers}{finding.what}", since_text(finding.since))))
    indent = " " * (width + 2)
    say(plain(head, MAX_LETTERS), start=click.style(f"{label:<{width}}  ", **style))
    for line in _facts(finding):
        say(plain(line, MAX_LETTERS), start=indent)
    for action in finding.actions:
        say(plain(action, MAX_LETTERS), start=f"{indent}{click.style('→', bold=True)} ")


def _facts(finding: Finding) -> Iterator[str]:
    yield from finding.details
    yield finding.cause
    if finding.muted_until is not None:
        until = datetime.fromtimestamp(finding.muted_until, UTC)
        yield f"muted until {until:%Y-%m-%d %H:%M} UTC by {finding.muted_by or 'an unknown user'}"


def since_text(since: float | None) -> str:
    """Return when a finding began: ``since 03:39:04, 8 min``, with the date if that is another day."""
    if since is None:
        return ""
    at, seconds = datetime.fromtimestamp(since, UTC), max(0.0, time.time() - since)
    shown = f"{at:%H:%M:%S}" if seconds < _HALF_A_DAY else f"{at:%Y-%m-%d %H:%M}"
    return f"since {shown} UTC, {span(seconds)}"
