"""``offsider migrate``: move stored jobs to the queues and servers of the current routing rules, or preview that."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.command import APPLICATION, SETTINGS, Connection, asks, connected, report_failed_servers
from offsider.cli.text import aligned, confirm, grouped, say
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.errors import ConfigurationError, UnknownJob
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.inspector import Migration  # imported here: --help needs none of it
from offsider.jobs import registry

if TYPE_CHECKING:
    from types import FrameType

    from offsider.config.config import Config
    from offsider.inspector import MigrationReport

INTERRUPTED = 130
_MOST_CLASSES = 5


@click.command(context_settings=SETTINGS)
@APPLICATION
@connected()
@click.option("--preview", is_flag=True, help="Show the moves without making them.")
@click.option("--queues", is_flag=True, help="Migrate jobs in queues. Default: queues, scheduled jobs and retries.")
@click.option("--scheduled", is_flag=True, help="Migrate scheduled jobs.")
@click.option("--retries", is_flag=True, help="Migrate jobs in the retry set.")
@click.option("--from", "from_queue", metavar="QUEUE", multiple=True, help="Only jobs of this queue. Repeatable.")
@click.option("--class", "name", metavar="NAME", multiple=True, help="Only this job, by its stored name. Repeatable.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Move at most N jobs.")
@click.option(
    "--rename", metavar="OLD=NEW", multiple=True,
    help="Ignore the rules: move all jobs of the queue OLD to the queue NEW. Repeatable.",
)  # fmt: skip
@click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation. Without a terminal the command never asks."
)
def migrate(
    connection: Connection,
    *,
    from_queue: tuple[str, ...],
    name: tuple[str, ...],
    limit: int | None,
    rename: tuple[str, ...],
    preview: bool,
    queues: bool,
    scheduled: bool,
    retries: bool,
    yes: bool,
) -> int:
    """Move stored jobs to the queues and servers that the current routing rules choose.

    Jobs that the application does not declare stay where they are. Workers may keep running. If the command is
    interrupted, no job is lost, and none is stored twice if the next run starts within a day.
    """
    every = not (queues or scheduled or retries)
    renames = _renames(rename)
    config = _load(connection, needs_jobs=not renames)
    _check_names(name, must_be_declared=not renames)
    with closing(Installation.of(config)):
        migration = Migration(
            config,
            queues=queues or every,
            scheduled=scheduled or every,
            retries=retries or every,
            from_queues=from_queue,
            names=name,
            limit=limit,
            renames=renames,
        )
        return run(migration, preview=preview, ask=not yes and asks())


def run(migration: Migration, *, preview: bool, ask: bool) -> int:
    """Show the plan, confirm it and move the jobs. Returns the exit code. Raises OffsiderError."""
    if preview or ask:
        found = _with_progress(migration.preview)
        say(*shown(found, "to move"))
        if preview or (found.moved == 0 and not found.finished):
            return report_failed_servers(found.failures, "the server")
        confirm(f"Move {counted(found.moved, 'job')}?")
    with _ending_gently(migration) as interrupted:
        report = _with_progress(migration.run)
    say(*shown(report, "moved"))
    if interrupted:
        say("stopped early; to continue, run the same command again", err=True)
        return INTERRUPTED
    return report_failed_servers(report.failures, "the server") or (1 if report.refused else 0)


def shown(report: MigrationReport, done: str) -> list[str]:
    """Return a table of the moves by job, then the jobs that stay and why; ``done`` is the verb for moved jobs."""
    rows = [
        (
            move.job_name,
            move.where,
            _location(move.from_server, move.from_queue),
            _location(move.to_server, move.to_queue),
            n,
        )
        for move, n in sorted(report.relocations.items())
    ]
    lines = (
        aligned([("JOB", "WHERE", "FROM", "TO", "JOBS"), *((*row, grouped(n)) for *row, n in rows)], numbers=(4,))
        if rows
        else []
    )
    lines.append(f"{counted(report.looked_at, 'job')} scanned, {grouped(report.moved)} {done}")
    lines += [f"  {sentence}" for sentence in _sentences(report, done)]
    return lines


def _sentences(report: MigrationReport, done: str) -> list[str]:
    undeclared = report.undeclared.total()
    finished = "delivered" if done == "moved" else "to deliver"
    cases = [
        (
            report.finished,
            f"{grouped(report.finished)} {finished}: an earlier migration left them in transit to another server",
        ),
        (report.in_place, f"{grouped(report.in_place)} already in the right queue"),
        (undeclared, f"{grouped(undeclared)} of classes that are not declared here: {_classes(report.undeclared)}"),
        (report.unreadable, f"{grouped(report.unreadable)} malformed, or without a queue"),
        (report.taken, f"{grouped(report.taken)} claimed by workers before they could be moved"),
        (report.refused, f"{grouped(report.refused)} not moved: the target server rejected them"),
        (
            report.on_their_way,
            f"{grouped(report.on_their_way)} are in transit to a server that failed: run the same command again",
        ),
    ]
    return [
        *(sentence for count, sentence in cases if count),
        *(
            f"unknown queue {queue}, and no job uses it: 'offsider queues' lists all queues"
            for queue in report.unknown_queues
        ),
        *([] if report.complete else ["the scan is incomplete"]),
    ]


def _classes(undeclared: Counter[str]) -> str:
    shown = [f"{name} {grouped(count)}" for name, count in undeclared.most_common(_MOST_CLASSES)]
    more = len(undeclared) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _location(server: str, queue: str) -> str:
    return queue if server == MAIN else f"{queue} of {server}"


# ------------------------------------------------------------------------------------- options


def _load(connection: Connection, *, needs_jobs: bool) -> Config:
    """Load the configuration and the application; --rename without an application needs the configuration only."""
    if not needs_jobs and not connection.require:
        config = connection.load()
        if not config.worker.require:
            return config
    return connection.load_declarations()


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
        raise ConfigurationError(f"--rename expects OLD=NEW, the old and the new name of a queue, got {given!r}")
    return old, new


def _check_names(names: Sequence[str], *, must_be_declared: bool) -> None:
    for name in names if must_be_declared else ():
        if registry.peek(name) is None:
            raise UnknownJob(name, f"unknown job {name!r}{suggest(name, sorted(registry.names()))}")


# ------------------------------------------------------------------------------------- progress


def _with_progress(work: Callable[..., MigrationReport]) -> MigrationReport:
    """Run the work and return its report, with a progress line on a terminal."""
    if not sys.stderr.isatty():
        return work()
    report = work(progress=_show_progress)
    click.echo("\r\x1b[K", nl=False, err=True)
    return report


def _show_progress(report: MigrationReport) -> None:
    click.echo(f"\r{grouped(report.looked_at)} scanned, {grouped(report.moved)} to move or moved", nl=False, err=True)


@contextmanager
def _ending_gently(migration: Migration) -> Generator[list[int]]:
    """Finish the moves in progress after the first Ctrl-C; the second one ends at once."""
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
