"""``offsider jobs``: stored jobs, found by the filters of the screen of jobs, and actions on all that match."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import click

from offsider.cli.command import (
    CONNECTION,
    JSON,
    YES,
    ConnectionOptions,
    command,
    group,
    report_failed_servers,
    require,
    server,
)
from offsider.cli.show import TerminalRequest, do_actions, show_screen
from offsider.cli.text import say_json
from offsider.config.installation import Installation
from offsider.inspector.search import place_names, search_places
from offsider.screens.job_actions import ACTIONS
from offsider.screens.job_filters import LABELS, places_wanted, wanted

_STEP_MS = 1_000.0
_WHERE = "Places: running, retry, schedule, dead, queue:NAME, queues, held, quarantine, all; several with commas."
_FILTERS = [
    click.option("--where", metavar="PLACES", default="", help=_WHERE),
    *(click.option(f"--{name}", metavar=name.upper(), default="", help=f"{label}.") for name, label in LABELS.items()),
]
_NO_FILTER = "name jobs by --where or another option, for example: offsider jobs --where dead --failed 10m"


@group(
    *_FILTERS,
    click.option("--most", type=click.IntRange(1), help="Show at most this many jobs. Default: 100."),
    *CONNECTION,
    server("One server. Default: all."),
    require("Application with extensions. Default: worker.require."),
    JSON,
)
def jobs(connection: ConnectionOptions, *, most: int | None, as_json: bool, **filters: str) -> int:
    """Find stored jobs, and act on all that match.

    For example: offsider jobs --where dead --failed 10m retry.

    Without options it lists the places with their sizes. Times are a duration (10m), a range in UTC (03:39..03:49,
    2026-11-28T03:39..) or a date. Exits with 1 if nothing was found. The subcommands list, manifest and diff are about
    the jobs that an application declares.
    """
    fields = _given(filters)
    if most and not fields:
        raise click.UsageError(_NO_FILTER)
    return show_screen(connection, "jobs", "", fields, as_json=as_json, most=most or 100)


def _given(filters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value}


def _asked() -> dict[str, str]:
    """Return the filter of the command. Raises click.UsageError without one."""
    parent = click.get_current_context().parent
    given = {} if parent is None else parent.params
    found = _given({name: str(given.get(name) or "") for name in ("where", *LABELS)})
    if not found:
        raise click.UsageError(_NO_FILTER)
    return found


@command(JSON, within=jobs)
def count(connection: ConnectionOptions, *, as_json: bool) -> int:
    """Count the jobs that match, by class, error, tenant, caller, queue and time of death."""
    return show_screen(connection, "jobs", "count", _asked(), as_json=as_json)


@command(within=jobs)
def export(connection: ConnectionOptions) -> int:
    """Print the jobs that match as lines of JSON, with their places and whole payloads."""
    fields, start = _asked(), connection.installation_with_extensions()
    _, away = connection.each_server(start, partial(_export, fields))
    return report_failed_servers(away, "cannot read the jobs of")


def _export(fields: Mapping[str, str], installation: Installation) -> None:
    request, seen = TerminalRequest(installation, fields), set[tuple[str, str]]()
    asked, places = wanted(request), place_names(installation, places_wanted(request))
    cursor, is_first = "", True
    while cursor or is_first:
        chunk = search_places(installation, places, asked, cursor, budget_ms=_STEP_MS)
        for found in chunk.entries:
            if (found.where, found.key) not in seen:
                seen.add((found.where, found.key))
                payload = found.record.payload or found.record.unwrapped.decode(errors="replace")
                say_json(json.dumps({"where": found.where, "job": payload}))
        cursor, is_first = chunk.cursor, False


# ------------------------------------------------------------------------------- actions


def _action(verb: str) -> None:
    option = click.option(
        "--first", type=click.IntRange(1), metavar="N", help="Only this many jobs of each server, as a canary."
    )

    @command(option, YES, JSON, within=jobs, name=verb.replace("_", "-"), what=f"{ACTIONS[verb].label} all that match.")
    def act(connection: ConnectionOptions, *, first: int | None, yes: bool, as_json: bool) -> int:
        fields = _asked() | ({"most": str(first)} if first else {})
        return do_actions(connection, "jobs", [verb], fields, yes=yes, as_json=as_json)


for _verb in ACTIONS:
    _action(_verb)
