"""``offsider search``: find jobs by id, class, argument or error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from offsider.cli.command import JSON, ONE_SERVER, SETTINGS, ConnectionOptions, connected, print_json, require
from offsider.cli.text import aligned, listed_arguments, say
from offsider.config.installation import Installation
from offsider.inspector import find_tracked, search_everywhere

if TYPE_CHECKING:
    from offsider.core.job_id import JobInfo
    from offsider.inspector import Found

_STEP_MS = 1000.0
_COLUMNS = ("WHERE", "CLASS", "JID", "ARGUMENTS")


@click.command(context_settings=SETTINGS)
@click.argument("text")
@connected(ONE_SERVER)
@require("Application with the extension Results, to find jobs that have ended too. Default: worker.require.")
@click.option("--most", type=click.IntRange(1), default=100, show_default=True, help="Stop after this many jobs.")
@JSON
def search(connection: ConnectionOptions, text: str, *, most: int, as_json: bool) -> int:
    """Find the jobs whose stored form contains TEXT: a jid, a class, an argument, an error.

    Searches running jobs, retries, scheduled and dead jobs, all queues, and the held jobs of extensions. For the id of
    a tracked job, the state of the job is shown too, also after its end. Exits with 1 if nothing was found.
    """
    here = Installation.of(connection.load_application(), connection.server or "")
    tracked, found = find_tracked(text, here), _found(here, text, most)
    if as_json:
        print_json({"tracked": tracked, "jobs": [_data(one) for one in found]})
    else:
        say(*_lines(tracked, found))
    return 0 if tracked or found else 1


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


def _lines(tracked: JobInfo | None, found: list[Found]) -> list[str]:
    lines = [f"{tracked.name} {tracked}"] if tracked else []
    rows = [(one.where, one.record.display_class, one.record.jid, listed_arguments(one.record)) for one in found]
    if rows:
        lines += aligned([_COLUMNS, *rows])
    return lines or ["No job found."]


def _data(one: Found) -> dict[str, str]:
    record = one.record
    return {"where": one.where, "class": record.display_class, "jid": record.jid, "queue": record.queue}
