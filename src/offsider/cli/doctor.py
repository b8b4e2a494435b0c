"""``offsider doctor``: examines the server, the workers and what is stored, and shows the way out of what is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from offsider.cli.application import BrokenApplication, load_extensions
from offsider.cli.connection import SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.core.errors import OffsiderError

if TYPE_CHECKING:
    from offsider.inspector.doctor import Finding

STYLES = {"ok": "green", "warn": "yellow", "bad": "red"}
CANNOT_EXAMINE = 2
MOST_LETTERS = 500


@click.command(context_settings=SETTINGS)
@connection_options
@click.option("--server", metavar="NAME", help="Only this one of the configuration's servers.")
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="The application, as for `offsider worker`: its extensions are examined too. Default: worker.require.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def doctor(
    config: str | None, environment: str | None, server: str | None, require: tuple[str, ...], *, as_json: bool
) -> None:
    """Examine the servers of the configuration, the workers and what is stored.

    Each finding says why it matters and what to do about it. Nothing is changed, and however much is stored it takes
    a few seconds at most: of many jobs a sample is looked at.

    The exit code is 0 when all is well, 1 when something wants attention, 2 when something is wrong.
    """
    sys.exit(run(config, environment, server, require, as_json=as_json))


def run(
    config: str | None, environment: str | None, server: str | None, require: Sequence[str] = (), *, as_json: bool
) -> int:
    """Examine and show; answers the exit code."""
    from offsider.inspector.doctor import examine, examine_all, worst  # imported here: --help needs none of it

    try:
        loaded = load(config, environment)
        error = load_extensions(require, loaded)
        broken = [] if error is None else [_not_loaded(error)]
        findings = [*broken, *(examine(loaded.for_server(server)) if server else examine_all(loaded))]
    except OffsiderError as error:
        give_up(str(error))
        return CANNOT_EXAMINE
    click.echo(as_object(findings)) if as_json else show(findings)
    return worst(findings)


def _not_loaded(error: BrokenApplication) -> Finding:
    from offsider.inspector.doctor.finding import warn

    return warn(
        "application",
        f"the application of worker.require cannot be loaded here: {error}",
        why="what its extensions know was not looked at, such as locks and parked jobs",
        way_out="run this where the workers run, or name the application: offsider doctor -r MODULE",
    )


def as_object(findings: Sequence[Finding]) -> str:
    """The findings as JSON."""
    from offsider.inspector.doctor import worst

    told = [
        {
            "check": finding.check,
            "severity": finding.severity.name.lower(),
            "what": finding.what,
            "why": finding.why,
            "way_out": finding.way_out,
            "servers": list(finding.servers),
        }
        for finding in findings
    ]
    return json.dumps({"severity": worst(findings).name.lower(), "findings": told}, indent=2)


def show(findings: Sequence[Finding]) -> None:
    """One paragraph for each finding, what is well in one line each."""
    for finding in findings:
        severity = finding.severity.name.lower()
        what = f"{', '.join(finding.servers)}: {finding.what}" if finding.servers else finding.what
        click.echo(f"{click.style(f'{severity:<4}', fg=STYLES[severity], bold=True)}  {plain(what, MOST_LETTERS)}")
        if finding.why:
            click.echo(f"      {finding.why}")
            click.echo(f"      {click.style('→', bold=True)} {plain(finding.way_out, MOST_LETTERS)}")
    troubles = sum(bool(finding.severity) for finding in findings)
    click.echo(f"\n{len(findings)} findings, {troubles} of them to look at" if troubles else "\nAll is well.")
