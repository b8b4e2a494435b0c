"""``offsider queues``: list queues with size and latency; pause, unpause and clear them."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from offsider.cli.application import load_extensions
from offsider.cli.command import SERVER, SETTINGS, connection_options, load, load_server
from offsider.cli.failure import give_up
from offsider.cli.text import aligned, grouped, plain
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.ext.unique import Locks
from offsider.inspector import ProcessSet, Queue, Stats

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from offsider.inspector import QueueSummary

EVERY_QUEUE = "*"
NOT_HERE = "cannot load the application of worker.require"
LOCKS_STAY = (
    "locks of unique jobs in these queues stay until a worker releases them after some minutes; until then, pushes of "
    "the same jobs are dropped. To release the locks at once, name the application: -r MODULE"
)
_MOST_LETTERS = 500
#: Configuration file, environment and server.
Connection: TypeAlias = tuple[str | None, str | None, str | None]


class UnknownQueue(OffsiderError):
    """No queue has this name; the message suggests a similar name."""


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def queues(
    context: click.Context, config: str | None, environment: str | None, server: str | None, *, as_json: bool
) -> None:
    """Show the queues with size and latency; paused and unserved queues are marked.

    The subcommands pause, unpause and clear change queues.
    """
    context.obj = (config, environment, server)
    if context.invoked_subcommand is None:
        sys.exit(run(context.obj, as_json=as_json))


def run(connection: Connection, *, as_json: bool) -> int:
    """Print the table, and return the exit code."""
    try:
        here = load_server(*connection)
        summaries, served = Stats.read(here).queue_summaries, served_queues(here)
    except OffsiderError as error:
        return give_up(str(error))
    click.echo(json.dumps(queue_data(summaries, served), indent=2) if as_json else queue_table(summaries, served))
    return 0


def served_queues(here: Installation) -> frozenset[str]:
    """Return the queues that running workers serve and that are not quiet; ``*`` means all."""
    return frozenset(queue for process in ProcessSet(here) if not process.is_quiet for queue in process.queues)


def queue_data(summaries: Sequence[QueueSummary], served: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the queues sorted by name, for JSON."""
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
    """Format ``NAME SIZE LATENCY``, sorted by name, latency in seconds; paused and unserved queues are marked."""
    rows = [("NAME", "SIZE", "LATENCY", "")]
    for summary in sorted(summaries, key=lambda summary: summary.name):
        marks = ["paused"] if summary.paused else []
        marks += [] if is_served(summary.name, served) else ["no worker"]
        rows.append((plain(summary.name), grouped(summary.size), f"{summary.latency_seconds:,.2f}", ", ".join(marks)))
    return "\n".join(aligned(rows, numbers=(1, 2)))


# ------------------------------------------------------------------------------------- changes


def _complete(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return queue names for shell completion; none if the server is unreachable."""
    from click.shell_completion import CompletionItem

    given = context.parent.params if context.parent else {}
    try:
        known = Queue.all(load_server(given.get("config"), given.get("environment"), given.get("server")))
    except OffsiderError:
        return []
    return [CompletionItem(queue.name) for queue in known if queue.name.startswith(typed)]


NAMES = click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_complete)


@queues.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: Connection, names: tuple[str, ...]) -> None:
    """Stop all workers from claiming jobs from these queues. Running jobs continue."""
    sys.exit(_act(connection, names, "pause"))


@queues.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def unpause(connection: Connection, names: tuple[str, ...]) -> None:
    """Let workers claim jobs from these queues again."""
    sys.exit(_act(connection, names, "unpause"))


@queues.command(context_settings=SETTINGS)
@NAMES
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="Application whose extensions release what deleted jobs hold, such as locks. Default: worker.require.",
)
@click.pass_obj
def clear(connection: Connection, names: tuple[str, ...], require: tuple[str, ...], *, yes: bool) -> None:
    """Permanently delete these queues with all their jobs. Asks for confirmation."""
    sys.exit(_clear(connection, names, require, ask=not yes))


def _act(connection: Connection, names: Sequence[str], how: str) -> int:
    try:
        for queue in _chosen(load_server(*connection), names, may_be_new=how == "pause"):
            getattr(queue, how)()
            click.echo(f"{queue.name}: {'paused' if how == 'pause' else 'unpaused'}")
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _clear(connection: Connection, names: Sequence[str], require: Sequence[str], *, ask: bool) -> int:
    file, environment, server = connection
    try:
        config = load(file, environment)
        broken = load_extensions(require, config)
        here = Installation.of(config, server or "")
        chosen = _chosen(here, names, may_be_new=False)
        if broken is not None:
            click.echo(plain(f"{NOT_HERE}: {broken}", _MOST_LETTERS), err=True)
        if _locks_stay(here):
            click.echo(LOCKS_STAY, err=True)
        if ask:
            jobs = counted(sum(map(len, chosen)), "job")
            click.confirm(f"Permanently delete {', '.join(names)} with {jobs}?", abort=True)
        for queue in chosen:
            click.echo(f"{queue.name}: {counted(queue.clear(), 'job')} deleted")
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _locks_stay(here: Installation) -> bool:
    """Whether there are locks of unique jobs, and no extension is loaded that releases the locks of deleted jobs."""
    return "unique" not in here.config.extensions and len(Locks(here)) > 0


def _chosen(here: Installation, names: Sequence[str], *, may_be_new: bool) -> list[Queue]:
    """Return the queues of these names. With `may_be_new` a queue need not have jobs yet, so that you can pause it."""
    known = {queue.name for queue in Queue.all(here)}
    chosen = [Queue(name, here) for name in names]
    for queue in chosen:
        if queue.name not in known and not may_be_new and not queue.paused:
            raise UnknownQueue(f"unknown queue {queue.name}{suggest(queue.name, known)}")
    return chosen
