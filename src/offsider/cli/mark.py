"""``offsider mark``: record a deploy, which the metrics pages show as a vertical line."""

from __future__ import annotations

import click

from offsider.cli.command import CONNECTION, ConnectionOptions, command, myself
from offsider.cli.text import say
from offsider.config.installation import Installation
from offsider.inspector import Deploys
from offsider.inspector.job_metrics import label_of_commit

#: `Deploys.mark` refuses a label that it recorded within this time.
MARK_LOCK_SECONDS = 60


@command(click.argument("label", default=""), *CONNECTION)
def mark(connection: ConnectionOptions, label: str) -> None:
    """Record a deploy. Run it from your deploy script.

    LABEL names the release; default: hash and subject of the last commit in the current folder. The deploy is recorded
    on every server of the configuration.
    """
    named = label or label_of_commit()
    config = connection.load()
    deploys = [Deploys(Installation.of(config, server)) for server in config.servers]
    # Many hosts deploy at the same time, and only the first records the deploy: the others have not failed.
    noted = [deploy.mark(named, by=myself()) for deploy in deploys]
    if any(noted):
        say(f"marked: {named}")
    elif any(_has(server, named, config.clock.now()) for server in deploys):
        say(f"not recorded: {named} was recorded in the last minute")
    else:
        say("not recorded: this minute already has another deploy")


def _has(deploys: Deploys, label: str, now: float) -> bool:
    return any(mark.label == label for mark in deploys.marks(now - MARK_LOCK_SECONDS, now))
