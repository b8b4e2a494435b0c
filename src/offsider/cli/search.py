"""``offsider search``: find jobs by id, class, argument or error."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from offsider.cli.application import load_application
from offsider.cli.command import SERVER, SETTINGS, connection_options, load_server
from offsider.cli.failure import give_up
from offsider.cli.text import aligned, listed_arguments, plain
from offsider.core.errors import OffsiderError
from offsider.inspector import find_tracked, search_everywhere

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.job_id import JobInfo
    from offsider.inspector import Found

_STEP_MS = 1000.0
_COLUMNS = ("WHERE", "CLASS", "JID", "ARGUMENTS")


@click.command(context_settings=SETTINGS)
@click.argument("text")
@connection_options
@SERVER
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="Application with the extension Results, to find jobs that have ended too. Default: worker.require.",
)
@click.option("--most", type=click.IntRange(1), default=100, show_default=True, help="Stop after this many jobs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def search(
    text: str,
    config: str | None,
    environment: str | None,
    server: str | None,
    require: tuple[str, ...],
    *,
    most: int,
    as_json: bool,
) -> None:
    """Find the jobs whose stored form contains TEXT: an id, a class, an argument, an error.

    Searches running jobs, retries, scheduled and dead jobs, all queues, and the held jobs of extensions. For the id of
    a tracked job, the state of the job is shown too, also after its end. Exits with 1 if nothing was found.
    """
    try:
        here = load_server(config, environment, server)
        load_application(require or here.config.worker.require, here.config)
        tracked, found = find_tracked(text, here), _found(here, text, most)
    except OffsiderError as error:
        sys.exit(give_up(str(error)))
    click.echo(_as_json(tracked, found) if as_json else _as_text(tracked, found))
    sys.exit(0 if tracked or found else 1)


def _found(here: Installation, text: str, most: int) -> list[Found]:
    found: list[Found] = []
    cursor = ""
    while len(found) < most:
        chunk = search_everywhere(text, cursor, _STEP_MS, here, most - len(found))
        found += chunk.entries
        cursor = chunk.cursor
        if not cursor:
            break
    return found[:most]


def _as_text(tracked: JobInfo | None, found: list[Found]) -> str:
    lines = [plain(f"{tracked.name} {tracked}")] if tracked else []
    rows = [(one.where, one.record.display_class, one.record.jid, listed_arguments(one.record)) for one in found]
    if rows:
        lines += aligned([_COLUMNS, *(tuple(map(plain, row)) for row in rows)])
    return "\n".join(lines) or "No job found."


def _as_json(tracked: JobInfo | None, found: list[Found]) -> str:
    jobs = [
        {"where": one.where, "class": one.record.display_class, "jid": one.record.jid, "queue": one.record.queue}
        for one in found
    ]
    return json.dumps({"tracked": asdict(tracked) if tracked else None, "jobs": jobs}, indent=2)
