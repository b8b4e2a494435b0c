"""``offsider queues``: the screen of queues, and a command that moves their jobs."""

from __future__ import annotations

import click

from offsider.cli.command import YES, ConnectionOptions, asks, command, myself
from offsider.cli.show import complete, named
from offsider.cli.text import confirm, say
from offsider.core.errors import UnknownSubject
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.inspector import Queue
from offsider.screens import audit

queues = named("queues")
_NAME = complete("queues")


@command(
    click.argument("source", metavar="FROM", shell_complete=_NAME),
    click.argument("target", metavar="TO", shell_complete=_NAME),
    click.option("--to-server", metavar="NAME", default="", help="Server of the queue TO. Default: the same server."),
    YES,
    within=queues,
)
def move(connection: ConnectionOptions, source: str, target: str, to_server: str, *, yes: bool) -> None:
    """Move the jobs that wait in the queue FROM to the tail of the queue TO.

    Workers may keep running. If the command is interrupted, no job is lost; run it again within a day.
    """
    installation = connection.installation()
    queue = Queue(source, installation)
    if not queue.exists and not queue.paused:
        known = [each.name for each in Queue.all(installation)]
        raise UnknownSubject(f"unknown queue {source}{suggest(source, known)}")
    if not yes and asks():
        where = f"{target} of {to_server}" if to_server else target
        confirm(f"Move {counted(len(queue), 'job')} from {source} to {where}?")
    count = queue.move_all(target, server=to_server)
    outcome = f"{counted(count, 'job')} moved from {source} to {target}"
    audit.done(installation, "queues.move", outcome, who=myself(), subject=source, filter=to_server, count=count)
    say(outcome)
