"""``offsider top``: a live view in the terminal, with a key for each action.

Reading order: `tabs` (their data and actions), `table` (rows and selection), `background` (reads and actions in
threads), `app` (keys, live refresh, dialogs).
"""

from __future__ import annotations

import click

from offsider.cli.command import MAX_LETTERS, ONE_SERVER, RELEASES, SETTINGS, ConnectionOptions, connected, require
from offsider.cli.text import plain, say
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError

__all__ = ["top"]

MISSING = 'offsider top needs Textual: pip install "offsider[tui]"'


@click.command(context_settings=SETTINGS)
@connected(ONE_SERVER)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    help="Refresh interval.",
)
@require(RELEASES)
def top(connection: ConnectionOptions, interval: float) -> None:
    """Show processes, queues and jobs live, and act on them.

    The tabs are Home, Busy, Queues, Scheduled, Retries, Dead and Metrics; ? shows the keys.
    """
    try:
        from offsider.cli.top.app import Top  # imported here: Textual is an extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise ConfigurationError(MISSING) from None
    config, broken = connection.load_extensions()
    here = Installation.of(config, connection.server or "")
    if broken is not None:
        say(plain(f"cannot load the application of worker.require: {broken}", MAX_LETTERS), err=True)
    Top(here, interval).run()
