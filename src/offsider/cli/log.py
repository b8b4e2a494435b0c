"""``offsider log``: what happened to the fleet, and who did what."""

from __future__ import annotations

from dataclasses import asdict

import click

from offsider.cli.command import CONNECTION, JSON, ConnectionOptions, command, output, report_failed_servers, server
from offsider.cli.text import aligned, plain
from offsider.config.installation import Installation
from offsider.inspector.events import Event, EventLog
from offsider.screens.log import clock, kinds_of, sentence
from offsider.screens.time_ranges import moment

_LETTERS = 300


@command(
    click.option("--since", metavar="TIME", default="", help="Events after 30m, 2h or 1d ago, or after a time in UTC."),
    click.option("--until", metavar="TIME", default="", help="Events before this time."),
    click.option("--who", metavar="TEXT", default="", help="Events of operators whose name contains this."),
    click.option("--kind", metavar="TEXT", default="", help="Events whose kind contains this, such as died or deploy."),
    click.option("--subject", metavar="TEXT", default="", help="Events whose subject contains this."),
    click.option("--count", metavar="N", type=click.IntRange(1), default=100, show_default=True, help="At most N."),
    *CONNECTION,
    server("One server. Default: all."),
    JSON,
)
def log(
    connection: ConnectionOptions,
    *,
    since: str,
    until: str,
    who: str,
    kind: str,
    subject: str,
    count: int,
    as_json: bool,
) -> int:
    """Show what happened: deploys, deaths, pauses, actions.

    The newest event is last. Starts and deaths of processes and what operators did are events, too.
    """
    start = connection.installation()
    now = start.config.clock.now()
    first, last = moment(since, now), moment(until, now)

    def read(server: Installation) -> list[Event]:
        log = EventLog(server)
        return log.read(since=first, until=last, kinds=kinds_of(kind), who=who, subject=subject, count=count)

    answers, away = connection.each_server(start, read)
    pairs = ((event, server) for server, events in answers.items() for event in reversed(events))
    found = sorted(pairs, key=lambda pair: pair[0].at)[-count:]
    output(
        [{"server": server, **asdict(event), "text": sentence(event)} for event, server in found],
        aligned([("TIME (UTC)", "KIND", "EVENT"), *(_row(event) for event, _ in found)]),
        as_json=as_json,
    )
    return report_failed_servers(away, "cannot read the log of")


def _row(event: Event) -> tuple[str, str, str]:
    return clock(event.at), event.kind, plain(sentence(event), _LETTERS)
