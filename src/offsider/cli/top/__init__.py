"""``offsider top``: a live view in the terminal, with a key for each action.

Reading order: `pages` (screens as tables of texts), `table` (rows and selection), `app` (keys, live refresh, dialogs).
"""

from __future__ import annotations

import click

from offsider.cli.command import CONNECTION, RELEASES, ConnectionOptions, command, require, server
from offsider.core.errors import ConfigurationError

__all__ = ["top"]

MISSING = 'offsider top needs Textual: pip install "offsider[tui]"'


@command(
    *CONNECTION,
    server(),
    click.option(
        "--interval", metavar="SECONDS", type=click.FloatRange(min=0.2), default=2.0, show_default=True,
        help="Refresh interval.",
    ),
    require(RELEASES),
)  # fmt: skip
def top(connection: ConnectionOptions, interval: float) -> None:
    """Show processes, queues and jobs live, and act on them.

    The tabs are those of the web UI, the first one lists the findings; ? shows the keys.
    """
    try:
        from offsider.cli.top.app import Top  # imported here: Textual is an extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise ConfigurationError(MISSING) from None
    Top(connection.installation_with_extensions(), interval).run()
