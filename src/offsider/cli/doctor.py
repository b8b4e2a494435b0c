"""``offsider doctor``: examine servers, workers and stored data, and suggest a fix for each problem."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider import fleet
from offsider.cli.command import CONNECTION, JSON, ConnectionOptions, command, require, server
from offsider.cli.failure import give_up
from offsider.cli.now import show_one
from offsider.cli.text import say, say_json
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.core.wording import counted
from offsider.inspector.finding import listing, warn, worst
from offsider.inspector.findings.examination import count_checks, examine, examine_all

if TYPE_CHECKING:
    from offsider.cli.application import BrokenApplication
    from offsider.inspector.finding import Finding

CANNOT_EXAMINE = 2


@command(
    *CONNECTION,
    server("Examine only this server of the configuration."),
    require("Application, as for `offsider worker`; its extensions are examined too. Default: worker.require."),
    JSON,
)
def doctor(connection: ConnectionOptions, *, as_json: bool) -> int:
    """Examine servers, workers and stored data.

    Each finding explains why it matters and how to fix it. The command changes nothing. It takes a few seconds at
    most, because its scan of the keys is limited.

    The exit code is 0 if all is well, 1 if there are warnings, 2 if there are errors.
    """
    try:
        config, error = connection.load_extensions()
        fleet.install(config)
        broken = [] if error is None else [_not_loaded(error)]
        one = connection.server
        findings = [*broken, *(examine(Installation.of(config, one)) if one else examine_all(config))]
    except OffsiderError as error:
        give_up(str(error))
        return CANNOT_EXAMINE
    checks = count_checks(config)
    say_json(as_object(findings, checks)) if as_json else show(findings, checks)
    return worst(findings)


def _not_loaded(error: BrokenApplication) -> Finding:
    return warn(
        "application",
        f"the application of worker.require cannot be loaded here: {error}",
        cause="the data of its extensions, such as locks and held jobs, was not examined",
        actions=("run this on a host with workers, or name the application: offsider doctor -r MODULE",),
    )


def as_object(findings: Sequence[Finding], checks: int) -> str:
    """Return the findings as JSON."""
    return json.dumps({"checks": checks, **listing(findings)}, indent=2)


def show(findings: Sequence[Finding], checks: int) -> None:
    """Print a paragraph for each finding, and the number of checks."""
    for finding in findings:
        show_one(finding, finding.severity.name.lower(), len("error"))
    say(f"{counted(checks, 'check')}, {counted(len(findings), 'finding') if findings else 'nothing found'}")
