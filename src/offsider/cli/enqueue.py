"""``offsider enqueue``: push one job of the application by hand."""

from __future__ import annotations

import json
from typing import Any, cast

import click

from offsider.cli.command import APPLICATION, CONNECTION, JSON, ConnectionOptions, command, myself, output
from offsider.cli.failure import give_up
from offsider.cli.text import seconds_typed
from offsider.config.installation import Installation
from offsider.config.routing import route
from offsider.core.errors import UnknownSubject
from offsider.core.suggestions import suggest
from offsider.jobs import registry
from offsider.jobs.enqueuer import Enqueuer
from offsider.screens import audit


@command(
    click.argument("name"),
    click.argument("args", nargs=-1),
    click.option("--kwargs", metavar="JSON", default="{}", help='Arguments by name: {"days": 2}.'),
    click.option("--in", "delay", callback=seconds_typed, metavar="TIME", help="Run it after 90s, 5m, 2h or 1d."),
    click.option("--queue", metavar="NAME", help="Queue. Default: that of the job."),
    APPLICATION,
    *CONNECTION,
    JSON,
)
def enqueue(
    connection: ConnectionOptions,
    *,
    name: str,
    args: tuple[str, ...],
    kwargs: str,
    delay: float | None,
    queue: str | None,
    as_json: bool,
) -> int:
    """Push a job by its name, with arguments as JSON.

    For example: offsider enqueue shop.mail 7 '"ann"' '[1, 2]'.

    Prints the jid. Arguments and options are checked as in the application, and its client middleware runs.
    """
    given = [_parsed(text) for text in args]
    named = _parsed(kwargs)
    if not isinstance(named, dict):
        raise click.UsageError(f'--kwargs expects a JSON object such as {{"days": 2}}, got {kwargs}')
    config = connection.load_declarations()
    declared = registry.peek(name)
    if declared is None:
        near = suggest(name, registry.names())
        raise UnknownSubject(f"the application has no job {name}{near}: offsider jobs list shows all")
    # An operator has no session of the outbox.
    job: Enqueuer[..., Any] = Enqueuer[..., Any](declared).using(after_commit=True)
    if queue is not None:
        job = job.using(queue=queue)
    by_name = cast("dict[str, Any]", named)
    jid = job.enqueue(*given, **by_name) if delay is None else job.enqueue_in(delay, *given, **by_name)
    if not jid:
        return give_up(f"{name} was not stored: client middleware canceled the push, or it is a duplicate")
    server = Installation.of(config, route(declared, config.routing.rules, config.jobs).server)
    audit.done(server, "job.enqueue", f"Enqueued: {declared.name}", who=myself(), subject=jid, count=1)
    output({"jid": jid, "class": declared.name}, [jid], as_json=as_json)
    return 0


def _parsed(text: str) -> object:
    """Parse an argument. Raises click.UsageError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise click.UsageError(f"{text} is not JSON; a text needs quotes: '{json.dumps(text)}'") from None
