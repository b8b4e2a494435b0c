"""``offsider migrate``: moves stored jobs to where today's rules want them, or shows what would move."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

import click

from offsider.cli.connection import SETTINGS, load
from offsider.cli.declarations import application_options, load_declarations
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.cli.quantities import grouped
from offsider.core.errors import ConfigurationError, OffsiderError, UnknownJob
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.wiring.nearest import suggest
from offsider.wiring.routing import MAIN

if TYPE_CHECKING:
    from types import FrameType

    from offsider.inspector import Migration, MigrationReport, Relocation
    from offsider.wiring.config import Config

INTERRUPTED = 130
_MOST_CLASSES = 5


class Choice(TypedDict):
    """What the options choose, as `Migration` takes it."""

    queues: bool
    scheduled: bool
    retries: bool
    from_queues: Sequence[str]
    names: Sequence[str]
    limit: int | None
    renames: Mapping[str, str]


@click.command(context_settings=SETTINGS)
@application_options
@click.option("--preview", is_flag=True, help="Only show what would move.")
@click.option("--queues", is_flag=True, help="Look at queues. Without this and the next two: at all three.")
@click.option("--scheduled", is_flag=True, help="Look at scheduled jobs.")
@click.option("--retries", is_flag=True, help="Look at jobs that failed and will be tried again.")
@click.option("--from", "from_queue", metavar="QUEUE", multiple=True, help="Only jobs of this queue; several times.")
@click.option(
    "--class", "name", metavar="NAME", multiple=True, help="Only this job, by its stored name; several times."
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Move so many jobs at most.")
@click.option(
    "--rename", metavar="OLD=NEW", multiple=True,
    help="Whatever the rules say, move all jobs of the queue OLD to the queue NEW; several times.",
)  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not ask first; without a terminal nobody is asked.")
def migrate(
    *,
    require: tuple[str, ...],
    config: str | None,
    environment: str | None,
    from_queue: tuple[str, ...],
    name: tuple[str, ...],
    limit: int | None,
    rename: tuple[str, ...],
    preview: bool,
    queues: bool,
    scheduled: bool,
    retries: bool,
    yes: bool,
) -> None:
    """Move stored jobs to the queues and servers where today's routing rules want them.

    Jobs that the application does not declare are left alone. Workers may run meanwhile. However this ends, no job is
    lost or doubled: the next run goes on.
    """
    every = not (queues or scheduled or retries)
    try:
        renames = _renames(rename)
        choice = Choice(
            queues=queues or every,
            scheduled=scheduled or every,
            retries=retries or every,
            from_queues=from_queue,
            names=name,
            limit=limit,
            renames=renames,
        )
        loaded = _load(require, config, environment, needs_jobs=not renames)
        _check_names(name, must_be_declared=not renames)
        with closing(loaded):
            sys.exit(run(loaded, choice, preview=preview, ask=not yes and _asks()))
    except OffsiderError as error:
        sys.exit(give_up(str(error)))


def run(config: Config, choice: Choice, *, preview: bool, ask: bool) -> int:
    """Show, ask, move; answers the exit code. Raises OffsiderError."""
    from offsider.inspector import Migration  # imported here: --help needs none of it

    if preview or ask:
        found = _told(Migration(config, **choice).preview)
        click.echo("\n".join(shown(found, "to move")))
        if preview or (found.moved == 0 and not found.finished):
            return _tell_failures(found)
        click.confirm(f"Move {counted(found.moved, 'job')}?", abort=True)
    migration = Migration(config, **choice)
    with _ending_gently(migration) as interrupted:
        report = _told(migration.run)
    click.echo("\n".join(shown(report, "moved")))
    if interrupted:
        click.echo("stopped before the end; the same command goes on", err=True)
        return INTERRUPTED
    return _tell_failures(report) or (1 if report.refused else 0)


def _tell_failures(report: MigrationReport) -> int:
    """Name the servers that failed; answers the exit code."""
    for server, error in report.failures.items():
        give_up(f"the server {server}: {error}")
    return 1 if report.failures else 0


def shown(report: MigrationReport, done: str) -> list[str]:
    """The ways by job, then what was left alone and why; ``done`` is what became of the others."""
    rows = [
        (
            plain(way.job_name),
            way.where,
            _place(way.from_server, way.from_queue),
            _place(way.to_server, way.to_queue),
            n,
        )
        for way, n in sorted(report.relocations.items(), key=_by_job)
    ]
    lines = _table([("JOB", "WHERE", "FROM", "TO", "JOBS"), *((*row, grouped(n)) for *row, n in rows)]) if rows else []
    lines.append(f"{counted(report.looked_at, 'job')} looked at, {grouped(report.moved)} {done}")
    lines += [f"  {sentence}" for sentence in _sentences(report, done)]
    return lines


def _sentences(report: MigrationReport, done: str) -> list[str]:
    undeclared = report.undeclared.total()
    finished = "have arrived that an earlier migration had left" if done == "moved" else "of an earlier migration are"
    told = [
        (report.finished, f"{grouped(report.finished)} {finished} on their way to another server"),
        (report.in_place, f"{grouped(report.in_place)} where they should be"),
        (undeclared, f"{grouped(undeclared)} of classes that are not declared here: {_classes(report.undeclared)}"),
        (report.unreadable, f"{grouped(report.unreadable)} that are no jobs, or name no queue"),
        (report.taken, f"{grouped(report.taken)} were taken by others just before"),
        (report.refused, f"{grouped(report.refused)} stay where they were: their new place does not take them"),
        (
            report.on_their_way,
            f"{grouped(report.on_their_way)} are on their way to a server that fails: the same command brings them on",
        ),
    ]
    return [
        *(sentence for count, sentence in told if count),
        *(
            f"there is no queue {plain(queue)}, and no job names it: 'offsider queues' shows those that there are"
            for queue in report.unknown_queues
        ),
        *([] if report.complete else ["not everything was looked at"]),
    ]


def _classes(undeclared: Counter[str]) -> str:
    told = [f"{plain(name)} {grouped(count)}" for name, count in undeclared.most_common(_MOST_CLASSES)]
    more = len(undeclared) - len(told)
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _by_job(item: tuple[Relocation, int]) -> tuple[str, ...]:
    way, _ = item
    return (way.job_name, way.where, way.from_server, way.from_queue)


def _place(server: str, queue: str) -> str:
    return plain(queue) if server == MAIN else f"{plain(queue)} of {plain(server)}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    *widths, last = (max(len(row[column]) for row in rows) for column in range(len(rows[0])))
    return [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), f"{row[-1]:>{last}}"])
        for row in rows
    ]


# ------------------------------------------------------------------------------------- what is asked for


def _asks() -> bool:
    """Whether somebody is there who can answer."""
    return sys.stdin.isatty()


def _load(require: Sequence[str], file: str | None, environment: str | None, *, needs_jobs: bool) -> Config:
    """The configuration, with the application unless there is none and no rule matters."""
    if not needs_jobs and not require:
        config = load(file, environment)
        if not config.worker.require:
            return config
    return load_declarations(require, file, environment)


def _renames(given: Sequence[str]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for old, new in map(_renamed, given):
        if old in renames:
            raise ConfigurationError(
                f"--rename names the queue {old} twice, as {renames[old]} and as {new}: choose one"
            )
        renames[old] = new
    return renames


def _renamed(given: str) -> tuple[str, str]:
    old, equals, new = given.partition("=")
    if not (old and equals and new):
        raise ConfigurationError(f"--rename is the old and the new name of a queue, OLD=NEW, got {given!r}")
    return old, new


def _check_names(names: Sequence[str], *, must_be_declared: bool) -> None:
    for name in names if must_be_declared else ():
        if registry.peek(name) is None:
            raise UnknownJob(name, f"no job is called {name!r}{suggest(name, sorted(registry.names()))}")


# ------------------------------------------------------------------------------------- while it runs


def _told(work: Callable[..., MigrationReport]) -> MigrationReport:
    """What the work reports, with a line of progress on a terminal."""
    if not sys.stderr.isatty():
        return work()
    report = work(progress=_show_progress)
    click.echo("\r\x1b[K", nl=False, err=True)
    return report


def _show_progress(report: MigrationReport) -> None:
    click.echo(f"\r{grouped(report.looked_at)} looked at, {grouped(report.moved)} to move or moved", nl=False, err=True)


@contextmanager
def _ending_gently(migration: Migration) -> Generator[list[int]]:
    """The first Ctrl-C lets the jobs that are being moved arrive; the second does not wait for them."""
    caught: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        caught.append(number)
        migration.stop()
        signal.signal(number, before[number])

    numbers = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
