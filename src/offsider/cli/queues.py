"""``offsider queues``: the queues with their sizes and latencies, and pausing, unpausing and clearing them."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from offsider.cli.application import load_extensions
from offsider.cli.connection import SERVER, SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.cli.quantities import grouped
from offsider.core.errors import OffsiderError
from offsider.core.wording import counted
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from offsider.inspector import Queue, QueueSummary
    from offsider.wiring.config import Config

EVERY_QUEUE = "*"
NOT_HERE = "the application of worker.require cannot be loaded here"
LOCKS_STAY = (
    "locks of unique jobs among them are kept until a worker frees them, in some minutes, and until then the same jobs "
    "are dropped when they are pushed; name the application, which frees them at once: -r MODULE"
)
_MOST_LETTERS = 500
#: The file, the environment and the server.
Connection: TypeAlias = tuple[str | None, str | None, str | None]


class UnknownQueue(OffsiderError):
    """No queue has this name; the message names the nearest."""


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@SERVER
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for programs.")
@click.pass_context
def queues(
    context: click.Context, config: str | None, environment: str | None, server: str | None, *, as_json: bool
) -> None:
    """Show the queues: how many jobs wait, for how long the next one has waited, and what is odd.

    The words pause, unpause and clear act on queues.
    """
    context.obj = (config, environment, server)
    if context.invoked_subcommand is None:
        sys.exit(run(context.obj, as_json=as_json))


def run(connection: Connection, *, as_json: bool) -> int:
    """Show the table; answers the exit code."""
    from offsider.inspector import Stats

    try:
        config = load(*connection)
        summaries, served = Stats.read(config).queue_summaries, served_queues(config)
    except OffsiderError as error:
        return give_up(str(error))
    click.echo(json.dumps(queue_data(summaries, served), indent=2) if as_json else queue_table(summaries, served))
    return 0


def served_queues(config: Config) -> frozenset[str]:
    """The queues from which some worker takes jobs now; ``*`` among them means all."""
    from offsider.inspector import ProcessSet

    return frozenset(queue for process in ProcessSet(config) if not process.is_quiet for queue in process.queues)


def queue_data(summaries: Sequence[QueueSummary], served: Collection[str]) -> list[Mapping[str, Any]]:
    """The queues by name, for JSON."""
    return [
        {
            "name": summary.name,
            "size": summary.size,
            "latency_seconds": summary.latency_seconds,
            "paused": summary.paused,
            "served": is_served(summary.name, served),
        }
        for summary in sorted(summaries, key=lambda summary: summary.name)
    ]


def is_served(queue: str, served: Collection[str]) -> bool:
    return queue in served or EVERY_QUEUE in served


def queue_table(summaries: Sequence[QueueSummary], served: Collection[str]) -> str:
    """``NAME SIZE LATENCY``, by name, latencies in seconds; a paused and an unserved queue are marked."""
    rows = [("NAME", "SIZE", "LATENCY", "")]
    for summary in sorted(summaries, key=lambda summary: summary.name):
        marks = ["paused"] if summary.paused else []
        marks += [] if is_served(summary.name, served) else ["no worker"]
        rows.append((plain(summary.name), grouped(summary.size), f"{summary.latency_seconds:,.2f}", ", ".join(marks)))
    name, size, latency = (max(len(row[column]) for row in rows) for column in range(3))
    return "\n".join(f"{r[0]:<{name}}  {r[1]:>{size}}  {r[2]:>{latency}}  {r[3]}".rstrip() for r in rows)


# ------------------------------------------------------------------------------------- acting on them


def _complete(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of queues, for the shell; none while the server is away."""
    from click.shell_completion import CompletionItem

    from offsider.inspector import Queue

    given = context.parent.params if context.parent else {}
    try:
        known = Queue.all(load(given.get("config"), given.get("environment"), given.get("server")))
    except OffsiderError:
        return []
    return [CompletionItem(queue.name) for queue in known if queue.name.startswith(typed)]


NAMES = click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_complete)


@queues.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: Connection, names: tuple[str, ...]) -> None:
    """Have no worker take jobs from these queues; jobs that run already go on."""
    sys.exit(_act(connection, names, "pause"))


@queues.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def unpause(connection: Connection, names: tuple[str, ...]) -> None:
    """Let workers take jobs from these queues again."""
    sys.exit(_act(connection, names, "unpause"))


@queues.command(context_settings=SETTINGS)
@NAMES
@click.option("-y", "--yes", is_flag=True, help="Do not ask first.")
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="The application: its extensions free what such jobs hold, as locks. Default: worker.require.",
)
@click.pass_obj
def clear(connection: Connection, names: tuple[str, ...], require: tuple[str, ...], *, yes: bool) -> None:
    """Delete these queues with all jobs that wait in them, for good. Asks first."""
    sys.exit(_clear(connection, names, require, ask=not yes))


def _act(connection: Connection, names: Sequence[str], how: str) -> int:
    try:
        for queue in _chosen(load(*connection), names, may_be_new=how == "pause"):
            getattr(queue, how)()
            click.echo(f"{queue.name}: {'paused' if how == 'pause' else 'goes on'}")
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _clear(connection: Connection, names: Sequence[str], require: Sequence[str], *, ask: bool) -> int:
    file, environment, server = connection
    try:
        config = load(file, environment)
        broken = load_extensions(require, config)
        config = config.for_server(server or config.server)
        chosen = _chosen(config, names, may_be_new=False)
        if broken is not None:
            click.echo(plain(f"{NOT_HERE}: {broken}", _MOST_LETTERS), err=True)
        if _locks_stay(config):
            click.echo(LOCKS_STAY, err=True)
        if ask:
            jobs = counted(sum(map(len, chosen)), "job")
            click.confirm(f"Delete {', '.join(names)} with {jobs}, for good?", abort=True)
        for queue in chosen:
            click.echo(f"{queue.name}: {counted(queue.clear(), 'job')} deleted")
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _locks_stay(config: Config) -> bool:
    """Whether there are locks of unique jobs, and no extension that would hear of the jobs that are deleted."""
    from offsider.ext.unique import Locks

    return "unique" not in config.extensions and len(Locks(config)) > 0


def _chosen(config: Config, names: Sequence[str], *, may_be_new: bool) -> list[Queue]:
    """The queues of these names. A queue may be paused before its first job comes, or by a worker that serves it."""
    from offsider.inspector import Queue

    known = {queue.name for queue in Queue.all(config)}
    chosen = [Queue(name, config) for name in names]
    for queue in chosen:
        if queue.name not in known and not may_be_new and not queue.paused:
            raise UnknownQueue(f"there is no queue {queue.name}{suggest(queue.name, known)}")
    return chosen
