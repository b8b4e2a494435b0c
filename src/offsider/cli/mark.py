"""``offsider mark``: record a deploy, which the metrics pages show as a vertical line."""

from __future__ import annotations

import sys

import click

from offsider.cli.command import SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.text import plain
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.inspector import Deploys
from offsider.inspector.job_metrics import label_of_commit

#: `Deploys.mark` refuses a label that it recorded within this time.
MARK_LOCK_SECONDS = 60


@click.command(context_settings=SETTINGS)
@click.argument("label", default="")
@connection_options
def mark(label: str, config: str | None, environment: str | None) -> None:
    """Record a deploy. Run it from your deploy script.

    LABEL names the release; default: hash and subject of the last commit in the current folder. The deploy is recorded
    on every server of the configuration.
    """
    try:
        named = label or label_of_commit()
        loaded = load(config, environment)
        deploys = [Deploys(Installation.of(loaded, server)) for server in loaded.servers]
        # Many hosts deploy at the same time, and only the first records the deploy: the others have not failed.
        noted = [server.mark(named) for server in deploys]
        if any(noted):
            answer = f"marked: {plain(named)}"
        elif any(_has(server, named, loaded.clock.now()) for server in deploys):
            answer = f"not recorded: {plain(named)} was recorded in the last minute"
        else:
            answer = "not recorded: this minute already has another deploy"
    except OffsiderError as error:
        sys.exit(give_up(str(error)))
    click.echo(answer)


def _has(deploys: Deploys, label: str, now: float) -> bool:
    return any(mark.label == label for mark in deploys.marks(now - MARK_LOCK_SECONDS, now))
