"""``offsider jobs``: the declared jobs of an application, as a table, as a file for CI, and compared by release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from offsider.cli.command import APPLICATION, MAX_LETTERS, SETTINGS, ConnectionOptions, connected
from offsider.cli.failure import give_up
from offsider.cli.jobs_diff import diff
from offsider.cli.text import aligned, plain, say, say_json
from offsider.config.routing import MAIN
from offsider.core.errors import ConfigurationError
from offsider.core.wording import shell_words
from offsider.fleet.manifest import differences, manifest as manifest_of, read, written
from offsider.jobs import registry

HEAD = ("NAME", "QUEUE", "URGENCY", "BOUNDARY", "CATEGORY", "EXTERNAL", "TAGS")


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@click.pass_context
def jobs(context: click.Context) -> None:
    """Show the jobs that an application declares, write them to a file, or compare two releases.

    Without a subcommand it lists the jobs.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_jobs)


jobs.add_command(diff)


@jobs.command("list", context_settings=SETTINGS)
@APPLICATION
@connected()
def list_jobs(connection: ConnectionOptions) -> None:
    """Show every job with its queue and characteristics, and warn of characteristics that contradict each other."""
    found = manifest_of(connection.load_declarations())
    say(*aligned([HEAD, *map(_row, found["jobs"])]))
    for job in registry.all_jobs():
        for doubt in job.characteristics.doubts:
            say(f"note: {job.name} {doubt}")


@jobs.command(context_settings=SETTINGS)
@APPLICATION
@connected()
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file. Default: standard output.",
)
@click.option(
    "--check", "checked", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="Compare with this file, show the differences, and exit with 1 if there are any.",
)  # fmt: skip
def manifest(connection: ConnectionOptions, output: Path | None, checked: Path | None) -> int:
    """Write every job with its queue, arguments and characteristics, as JSON in a stable order.

    Commit the file with the code, and run this command with --check in CI.
    """
    found = manifest_of(connection.load_declarations())
    try:
        if output is not None:
            output.write_text(written(found), encoding="utf-8")
        earlier = None if checked is None else checked.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(str(error)) from None
    if earlier is None:
        if output is None:
            say_json(written(found).rstrip())
        return 0
    different = differences(read(earlier, str(checked)), found)
    for line in different:
        say(plain(line, MAX_LETTERS))
    if different:
        return give_up(f"{checked} is out of date; update it: offsider jobs manifest -o {shell_words(str(checked))}")
    return 0


def _row(job: Mapping[str, Any]) -> Sequence[str]:
    return (
        job["name"],
        job["queue"] if job["server"] == MAIN else f"{job['queue']} ({job['server']})",
        job["urgency"],
        job["resource_boundary"],
        job["feature_category"] or "-",
        "yes" if job["external_dependencies"] else "-",
        ",".join(job["tags"]) or "-",
    )
