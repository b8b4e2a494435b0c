"""``offsider jobs list``, ``manifest`` and ``diff``: the declared jobs of an application."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.command import APPLICATION, CONNECTION, MAX_LETTERS, ConnectionOptions, command
from offsider.cli.failure import give_up
from offsider.cli.stored_jobs import jobs as jobs  # noqa: PLC0414  # the command
from offsider.cli.text import aligned, plain, say, say_json
from offsider.config.routing import MAIN
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import suggest
from offsider.core.wording import counted, shell_words
from offsider.fleet.manifest import (
    GUIDE,
    incompatible,
    manifest as manifest_of,
    names,
    read,
    stored_jobs,
    written,
)
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.fleet.manifest import Incompatible, StoredJobs
    from offsider.inspector.job_record import JobRecord

HEAD = ("NAME", "QUEUE", "URGENCY", "BOUNDARY", "CATEGORY", "EXTERNAL", "TAGS")


@command(APPLICATION, *CONNECTION, within=jobs, name="list")
def list_jobs(connection: ConnectionOptions) -> None:
    """Show the declared jobs with queue and characteristics, and warn of characteristics that contradict each other."""
    found = manifest_of(connection.load_declarations())
    say(*aligned([HEAD, *map(_row, found["jobs"])]))
    for job in registry.all_jobs():
        for doubt in job.characteristics.doubts:
            say(f"note: {job.name} {doubt}")


FILE = click.Path(dir_okay=False, path_type=Path)
#: Lines around a change in the output of ``--check``, so that it shows the name of the job.
CONTEXT_LINES = 12


@command(
    APPLICATION,
    *CONNECTION,
    click.option("-o", "--output", metavar="FILE", type=FILE, help="Output file. Default: standard output."),
    click.option(
        "--check", "checked", metavar="FILE", type=FILE,
        help="Compare with this file, show the differences, and exit with 1 if there are any.",
    ),
    within=jobs,
)  # fmt: skip
def manifest(connection: ConnectionOptions, output: Path | None, checked: Path | None) -> int:
    """Write every job with its queue, arguments and characteristics, as JSON in a stable order.

    Commit the file with the code, and run this command with --check in CI.
    """
    text = written(manifest_of(connection.load_declarations()))
    try:
        if output is not None:
            output.write_text(text, encoding="utf-8")
        earlier = None if checked is None else checked.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(str(error)) from None
    if earlier is None and output is None:
        say_json(text.rstrip())
    if earlier in (None, text):
        return 0
    lines = str(earlier).splitlines(), text.splitlines()
    say(*unified_diff(*lines, str(checked), "application", n=CONTEXT_LINES, lineterm=""))
    return give_up(f"{checked} is out of date; update it: offsider jobs manifest -o {shell_words(str(checked))}")


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


# --------------------------------------------------------------------------------- comparison

UNSAFE, ALLOWED, SAFE = "UNSAFE", "allowed", "safe"


@command(
    click.argument("old"),
    click.argument("new", required=False),
    APPLICATION,
    *CONNECTION,
    click.option("--allow", "allowed", multiple=True, metavar="NAME", help="Accept the change of this job."),
    click.option(
        "--redis", "counting", is_flag=True,
        help="Count the stored jobs that each change affects; a change that affects none is safe.",
    ),
    within=jobs,
)  # fmt: skip
def diff(connection: ConnectionOptions, *, old: str, new: str | None, allowed: tuple[str, ...], counting: bool) -> int:
    """List the jobs of release OLD that release NEW could not run, and exit with 1 if there are any.

    OLD and NEW are files that `offsider jobs manifest` wrote. NEW defaults to the application in the current folder.
    """
    before, after = (_manifest(name, connection) for name in (old, new))
    found = incompatible(before, after)
    _check_allowed(allowed, {name for job in (*before["jobs"], *after["jobs"]) for name in names(job)})
    tests = {change.name: partial(_runs, change) for change in found}
    stored = stored_jobs(connection.installation(), tests) if counting and tests else {}
    verdicts: Counter[str] = Counter()
    for change in found:
        verdict = _verdict(change.name, allowed, stored)
        verdicts[verdict] += 1
        say(f"{verdict:<8}{change.name}")
        lines = [f"old: {change.old}", f"new: {change.new or 'none'}", f"{change.reason}; see {GUIDE}"]
        lines += [_stored(stored[change.name])] if counting else []
        for line in lines:
            say(plain(line, MAX_LETTERS), start="        ")
    others = [f"{verdicts[word]} {word}" for word in (SAFE, ALLOWED) if verdicts[word]]
    say(", ".join([counted(verdicts[UNSAFE], "unsafe change"), *others]))
    return 1 if verdicts[UNSAFE] else 0


def _manifest(name: str | None, connection: ConnectionOptions) -> dict[str, Any]:
    if name is None:
        return manifest_of(connection.load_declarations())
    try:
        return read(Path(name).read_text(encoding="utf-8", errors="replace"), name)
    except OSError as error:
        raise ConfigurationError(str(error)) from None


def _check_allowed(allowed: Sequence[str], known: Collection[str]) -> None:
    for name in allowed:
        if name not in known:
            raise ConfigurationError(f"--allow {name}: job not found in either release{suggest(name, known)}")


def _runs(change: Incompatible, record: JobRecord) -> bool | None:
    return change.runs(record.args, record.kwargs, record["signature"])


def _verdict(name: str, allowed: Sequence[str], stored: Mapping[str, StoredJobs]) -> str:
    if name in allowed:
        return ALLOWED
    return SAFE if name in stored and not stored[name].unfit else UNSAFE


def _stored(stored: StoredJobs) -> str:
    places = ", ".join(f"{count} in {place}" for place, count in stored.places.items())
    return f"stored: {places or 'none'}; {counted(stored.unfit, 'job')} affected (dead jobs not counted)"
