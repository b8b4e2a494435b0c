"""``offsider top``: a live view in the terminal, with a key for each action.

Reading order: `table` (interface of a tab), `tabs` and `set_tabs` (the tabs), `app` (keys, live refresh, drawing,
dialogs).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from offsider.cli.application import load_extensions
from offsider.cli.command import SERVER, SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.text import plain
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError

__all__ = ["top"]

MISSING = 'offsider top needs Textual: pip install "offsider[tui]"'


@click.command(context_settings=SETTINGS)
@connection_options
@SERVER
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    help="Refresh interval.",
)
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="Application whose extensions release what deleted jobs hold, such as locks. Default: worker.require.",
)
def top(
    config: str | None, environment: str | None, server: str | None, interval: float, require: tuple[str, ...]
) -> None:
    """Show processes, queues and jobs live, and act on them.

    The tabs are Home, Busy, Queues, Scheduled, Retries, Dead and Metrics; ? shows the keys.
    """
    sys.exit(run(config, environment, server, interval, require))


def run(
    file: str | None,
    environment: str | None,
    server: str | None,
    interval_seconds: float,
    require: Sequence[str] = (),
) -> int:
    """Run until q is pressed, and return the exit code."""
    try:
        from offsider.cli.top.app import Top  # imported here: Textual is an extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        return give_up(MISSING)
    try:
        config = load(file, environment)
        broken = load_extensions(require, config)
        here = Installation.of(config, server or "")
    except OffsiderError as error:
        return give_up(str(error))
    if broken is not None:
        click.echo(f"cannot load the application of worker.require: {plain(str(broken), 500)}", err=True)
    Top(here, interval_seconds).run()
    return 0
