"""``offsider periodic``: the screen of periodic jobs, and a check of those in code and in the configuration file."""

from __future__ import annotations

from datetime import datetime

import click

from offsider.cli.command import ConnectionOptions, command, require
from offsider.cli.show import named
from offsider.cli.text import say
from offsider.core.wording import counted
from offsider.ext.periodic.entry import examine

_TIME = "%Y-%m-%d %H:%M:%S %z"
periodic = named("periodic")


@command(
    require("Application, as for `offsider worker`. Repeatable."),
    click.option(
        "--foreign", is_flag=True, help="Accept jobs that this application does not declare: they run elsewhere."
    ),
    within=periodic,
)
def check(connection: ConnectionOptions, *, foreign: bool) -> int:
    """Check the periodic jobs in code and in the configuration file, without Redis. For CI."""
    examined = examine(connection.load_application(), foreign=foreign)
    for entry, problem in examined:
        following = entry.ticks.next_after(datetime.now().timestamp())  # noqa: DTZ005 - a timestamp has no zone
        when = "" if following is None else f"{entry.ticks.local(following):{_TIME}}"
        say(f"{entry.name}: {problem}" if problem else f"{entry.name}: {entry.cron} {entry.tz}, next {when}")
    wrong = sum(1 for _, problem in examined if problem)
    say(f"{counted(len(examined), 'periodic job')}, {wrong} wrong")
    return 1 if wrong else 0
