"""``offsider mark``: notes a deploy, which the metrics pages then show as a line."""

from __future__ import annotations

import sys

import click

from offsider.cli.connection import SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.core.errors import OffsiderError


@click.command(context_settings=SETTINGS)
@click.argument("label", default="")
@connection_options
def mark(label: str, config: str | None, environment: str | None) -> None:
    """Note a deploy, to be run by whatever deploys.

    LABEL is what was deployed; by default hash and subject of the last commit here. It is noted on every server of the
    configuration.
    """
    from offsider.inspector import Deploys
    from offsider.inspector.deploys import label_of_commit

    try:
        named = label or label_of_commit()
        loaded = load(config, environment)
        noted = [Deploys(loaded.for_server(server)).mark(named) for server in loaded.servers]
    except OffsiderError as error:
        sys.exit(give_up(str(error)))
    # Many hosts deploy at once, and all but one find it done: that is no failure.
    click.echo(f"marked: {plain(named)}" if any(noted) else f"already marked within this minute: {plain(named)}")
