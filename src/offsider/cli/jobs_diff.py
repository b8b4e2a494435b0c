"""``offsider jobs diff``: what a release changes for jobs that are stored already, for CI and before a deploy."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.connection import SETTINGS, load
from offsider.cli.declarations import application_options, load_declarations
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.core.wording import counted
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from offsider.inspector.job_record import JobRecord
    from offsider.inspector.stored_jobs import StoredJobs
    from offsider.jobs.compatibility import Change, Judge

MOST_LETTERS = 500
UNSAFE, ALLOWED, CLEAR, NOTE = "UNSAFE", "allowed", "clear", "note"


@click.command(context_settings=SETTINGS)
@click.argument("old")
@click.argument("new", default="")
@application_options
@click.option("--allow", "allowed", multiple=True, metavar="NAME", help="Let the changes of this job through.")
@click.option(
    "--redis",
    "counting",
    is_flag=True,
    help="Count the stored jobs that unsafe changes concern; a change that concerns none is clear.",
)
def diff(
    *,
    old: str,
    new: str,
    require: tuple[str, ...],
    config: str | None,
    environment: str | None,
    allowed: tuple[str, ...],
    counting: bool,
) -> None:
    """Show what becomes of stored jobs when the release OLD is followed by NEW, and end with 1 when it is unsafe.

    Each is a file that `offsider jobs manifest` has written, or a git revision, of which the application is loaded. NEW
    may be left out for what is in the current folder.
    """
    from offsider.jobs.compatibility import changes, judges

    try:
        before = _manifest(old, require, config, environment)
        after = _manifest(new, require, config, environment) if new else _current(require, config, environment)
        found = changes(before, after)
        _check_allowed(allowed, (before, after))
        stored = _count(judges(before, after), config, environment) if counting else None
    except (OffsiderError, OSError) as error:
        sys.exit(give_up(str(error)))
    judged = [(_word(change, allowed, stored), change) for change in found]
    for line in told(judged, stored or {}):
        click.echo(plain(line, most=MOST_LETTERS))
    sys.exit(1 if any(word == UNSAFE for word, _ in judged) else 0)


def told(judged: Sequence[tuple[str, Change]], stored: Mapping[str, Sequence[tuple[str, StoredJobs]]]) -> list[str]:
    """The lines for people."""
    if not judged:
        return ["nothing has changed for stored jobs"]
    lines: list[str] = []
    for word, change in judged:
        lines.append(f"{word:<8}{change.job} {change.what}")
        if word in {UNSAFE, NOTE}:
            numbered = len(change.steps) > 1
            lines += [f"        {f'{place}. ' if numbered else ''}{step}" for place, step in enumerate(change.steps, 1)]
    lines += [f"stored  {name}: {_places(jobs)}" for every in stored.values() for name, jobs in every]
    counts = Counter(word for word, _ in judged)
    summary = [counted(counts[UNSAFE], "unsafe change"), counted(counts[NOTE], "note")]
    return [*lines, ", ".join(summary + [f"{counts[word]} {word}" for word in (CLEAR, ALLOWED) if counts[word]])]


def _word(change: Change, allowed: Sequence[str], stored: Mapping[str, Sequence[tuple[str, StoredJobs]]] | None) -> str:
    if not change.unsafe:
        return NOTE
    if change.job in allowed:
        return ALLOWED
    if stored is None:
        return UNSAFE
    concerned = sum(jobs.to_run if change.misleads else jobs.unfit for _, jobs in stored.get(change.job, ()))
    return UNSAFE if concerned else CLEAR


def _check_allowed(allowed: Sequence[str], manifests: Sequence[Mapping[str, Any]]) -> None:
    known = {job["name"] for manifest in manifests for job in manifest["jobs"]}
    for name in allowed:
        if name not in known:
            raise ConfigurationError(f"--allow {name}: neither release has such a job{suggest(name, known)}")


def _places(jobs: StoredJobs) -> str:
    if not jobs.places:
        return "none is stored"
    places = ", ".join(f"{count} in {place}" for place, count in jobs.places.items())
    return f"{places}; {counted(jobs.unfit, 'job')} could not be run, the dead left out"


def _manifest(name: str, require: Sequence[str], file: str | None, environment: str | None) -> dict[str, Any]:
    """Of a file, else of a revision."""
    from offsider.cli.revision import manifest_of_revision
    from offsider.jobs.manifest import read

    path = Path(name)
    if path.is_file():
        return read(path.read_text(encoding="utf-8", errors="replace"), name)
    return manifest_of_revision(name, require, file, environment)


def _current(require: Sequence[str], file: str | None, environment: str | None) -> dict[str, Any]:
    from offsider.jobs.manifest import manifest

    return manifest(load_declarations(require, file, environment))


def _count(
    judges: Mapping[str, Judge], file: str | None, environment: str | None
) -> dict[str, list[tuple[str, StoredJobs]]]:
    """Job -> each of its names with what is stored under it."""
    from offsider.inspector.stored_jobs import stored_jobs

    tests: dict[str, Callable[[JobRecord], bool | None]] = {
        name: partial(_can_be_run, judge) for name, judge in judges.items()
    }
    counts = stored_jobs(load(file, environment), tests) if tests else {}
    by_job: dict[str, list[tuple[str, StoredJobs]]] = {}
    for name, judge in judges.items():
        by_job.setdefault(judge.job, []).append((name, counts[name]))
    return by_job


def _can_be_run(judge: Judge, record: JobRecord) -> bool | None:
    """None for jobs that the new release has pushed itself."""
    if judge.signature and record["signature"] == judge.signature:
        return None
    return judge.fits(record.args, record.kwargs)
