"""``offsider doctor``: examine servers, workers and stored data, and suggest a fix for each problem."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from offsider import fleet
from offsider.cli.command import JSON, MAX_LETTERS, SETTINGS, ConnectionOptions, connected, require
from offsider.cli.failure import give_up
from offsider.cli.text import plain, say, say_json
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.core.wording import counted
from offsider.inspector.doctor.examination import examine, examine_all  # imported here: --help needs none of it
from offsider.inspector.finding import warn, worst

if TYPE_CHECKING:
    from offsider.cli.application import BrokenApplication
    from offsider.inspector.finding import Finding

STYLES = {"ok": "green", "warn": "yellow", "error": "red"}
CANNOT_EXAMINE = 2


@click.command(context_settings=SETTINGS)
@connected("Examine only this server of the configuration.")
@require("Application, as for `offsider worker`; its extensions are examined too. Default: worker.require.")
@JSON
def doctor(connection: ConnectionOptions, *, as_json: bool) -> int:
    """Examine the servers of the configuration, the workers and the stored data.

    Each finding explains why it matters and how to fix it. The command changes nothing. It takes a few seconds at
    most, because it examines a sample of large queues and sets.

    The exit code is 0 if all is well, 1 if there are warnings, 2 if there are errors.
    """
    try:
        config, error = connection.load_extensions()
        fleet.install(config)
        broken = [] if error is None else [_not_loaded(error)]
        server = connection.server
        findings = [*broken, *(examine(Installation.of(config, server)) if server else examine_all(config))]
    except OffsiderError as error:
        give_up(str(error))
        return CANNOT_EXAMINE
    say_json(as_object(findings)) if as_json else show(findings)
    return worst(findings)


def _not_loaded(error: BrokenApplication) -> Finding:
    return warn(
        "application",
        f"the application of worker.require cannot be loaded here: {error}",
        cause="the data of its extensions, such as locks and held jobs, was not examined",
        action="run this on a host with workers, or name the application: offsider doctor -r MODULE",
    )


def as_object(findings: Sequence[Finding]) -> str:
    """Return the findings as JSON."""
    items = [asdict(finding) | {"severity": finding.severity.name.lower()} for finding in findings]
    for item in items:
        del item["fatal"]
    return json.dumps({"severity": worst(findings).name.lower(), "findings": items}, indent=2)


def show(findings: Sequence[Finding]) -> None:
    """Print one line per passed check, and a paragraph per problem."""
    for finding in findings:
        severity = finding.severity.name.lower()
        what = f"{', '.join(finding.servers)}: {finding.what}" if finding.servers else finding.what
        say(plain(what, MAX_LETTERS), start=f"{click.style(f'{severity:<5}', fg=STYLES[severity], bold=True)}  ")
        if finding.cause:
            say(finding.cause, start="       ")
            say(plain(finding.actions[0], MAX_LETTERS), start=f"       {click.style('→', bold=True)} ")
    problems = sum(bool(finding.severity) for finding in findings)
    say("", f"{counted(len(findings), 'finding')}, {problems} to attend to" if problems else "All is well.")
