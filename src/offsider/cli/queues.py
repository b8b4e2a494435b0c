"""``offsider queues``: list queues with size and latency; pause, resume, move and clear them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from offsider.cli.command import (
    JSON,
    MAX_LETTERS,
    ONE_SERVER,
    RELEASES,
    SETTINGS,
    YES,
    ConnectionOptions,
    asks,
    connected,
    print_json,
    require,
)
from offsider.cli.controls import myself
from offsider.cli.text import aligned, confirm, grouped, plain, say
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.ext.unique import Locks
from offsider.inspector import ProcessSet, Queue, Stats

if TYPE_CHECKING:
    from offsider.inspector import QueueSummary

EVERY_QUEUE = "*"
NOT_HERE = "cannot load the application of worker.require"
LOCKS_STAY = (
    "locks of unique jobs in these queues stay until they expire; until then, pushes of the same jobs are dropped. To "
    "release the locks too, name the application: -r MODULE"
)


class UnknownQueue(OffsiderError):
    """No queue has this name; the message suggests a similar name."""


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connected(ONE_SERVER)
@JSON
@click.pass_context
def queues(context: click.Context, connection: ConnectionOptions, *, as_json: bool) -> None:
    """Show the queues with size and latency; paused and unserved queues are marked.

    The subcommands pause, resume, move and clear change queues.
    """
    context.obj = connection
    if context.invoked_subcommand is not None:
        return
    here = connection.installation()
    summaries, served = Stats.read(here).queue_summaries, served_queues(here)
    if as_json:
        print_json(queue_data(summaries, served))
    else:
        say(*queue_table(summaries, served).split("\n"))


def served_queues(here: Installation) -> frozenset[str]:
    """Return the queues that running workers serve; ``*`` means all."""
    return frozenset(queue for process in ProcessSet(here) for queue in process.serving)


def queue_data(summaries: Sequence[QueueSummary], served: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the queues sorted by name, for JSON."""
    by_name = sorted(summaries, key=lambda summary: summary.name)
    return [asdict(summary) | {"served": is_served(summary.name, served)} for summary in by_name]


def is_served(queue: str, served: Collection[str]) -> bool:
    return queue in served or EVERY_QUEUE in served


def queue_table(summaries: Sequence[QueueSummary], served: Collection[str]) -> str:
    """Format ``NAME SIZE LATENCY``, sorted by name, latency in seconds; paused and unserved queues are marked."""
    rows = [("NAME", "SIZE", "LATENCY", "")]
    for summary in sorted(summaries, key=lambda summary: summary.name):
        marks = ["paused"] if summary.paused else []
        marks += [] if is_served(summary.name, served) else ["no worker"]
        rows.append((summary.name, grouped(summary.size), f"{summary.latency_seconds:,.2f}", ", ".join(marks)))
    return "\n".join(aligned(rows, numbers=(1, 2)))


# ------------------------------------------------------------------------------------- changes


def _complete(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return queue names for shell completion; none if the server is unreachable."""
    given = context.parent.params if context.parent else {}
    connection = ConnectionOptions(given.get("config"), given.get("environment"), given.get("server"))
    try:
        known = Queue.all(connection.installation())
    except OffsiderError:
        return []
    return [CompletionItem(queue.name) for queue in known if queue.name.startswith(typed)]


NAMES = click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_complete)


@queues.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: ConnectionOptions, names: tuple[str, ...]) -> None:
    """Stop all workers from claiming jobs from these queues. Running jobs continue."""
    for queue in _chosen(connection.installation(), names, may_be_new=True):
        queue.pause(by=myself())
        say(f"{queue.name}: paused")


@queues.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def resume(connection: ConnectionOptions, names: tuple[str, ...]) -> None:
    """Let workers claim jobs from these queues again."""
    for queue in _chosen(connection.installation(), names):
        queue.unpause()
        say(f"{queue.name}: resumed")


@queues.command(context_settings=SETTINGS)
@NAMES
@YES
@require(RELEASES)
@click.pass_obj
def clear(connection: ConnectionOptions, names: tuple[str, ...], require: tuple[str, ...], *, yes: bool) -> None:
    """Permanently delete these queues with all their jobs. Asks for confirmation."""
    config, broken = replace(connection, require=require).load_extensions()
    here = Installation.of(config, connection.server or "")
    chosen = _chosen(here, names)
    if broken is not None:
        say(plain(f"{NOT_HERE}: {broken}", MAX_LETTERS), err=True)
    if _locks_stay(here):
        say(LOCKS_STAY, err=True)
    if not yes:
        jobs = counted(sum(map(len, chosen)), "job")
        confirm(f"Permanently delete {', '.join(names)} with {jobs}?")
    for queue in chosen:
        say(f"{queue.name}: {counted(queue.clear(), 'job')} deleted")


@queues.command(context_settings=SETTINGS)
@click.argument("source", metavar="FROM", shell_complete=_complete)
@click.argument("target", metavar="TO", shell_complete=_complete)
@click.option("--to-server", metavar="NAME", default="", help="Server of the queue TO. Default: the same server.")
@YES
@click.pass_obj
def move(connection: ConnectionOptions, source: str, target: str, to_server: str, *, yes: bool) -> None:
    """Move the jobs that wait in the queue FROM to the tail of the queue TO.

    Workers may keep running. If the command is interrupted, no job is lost; run it again within a day.
    """
    (queue,) = _chosen(connection.installation(), [source])
    if not yes and asks():
        where = f"{target} of {to_server}" if to_server else target
        confirm(f"Move {counted(len(queue), 'job')} from {source} to {where}?")
    say(f"{counted(queue.move_all(target, server=to_server), 'job')} moved from {source} to {target}")


def _locks_stay(here: Installation) -> bool:
    """Whether there are locks of unique jobs, and no extension is loaded that releases the locks of deleted jobs."""
    return "unique" not in here.config.extensions and len(Locks(here)) > 0


def _chosen(here: Installation, names: Sequence[str], *, may_be_new: bool = False) -> list[Queue]:
    """Return the queues of these names. With `may_be_new` a queue need not have jobs yet, so that you can pause it."""
    known = {queue.name for queue in Queue.all(here)}
    chosen = [Queue(name, here) for name in names]
    for queue in chosen:
        if queue.name not in known and not may_be_new and not queue.paused:
            raise UnknownQueue(f"unknown queue {queue.name}{suggest(queue.name, known)}")
    return chosen
