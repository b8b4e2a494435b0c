"""``offsider quiet``, ``stop`` and ``dump``: signals for workers on any machine, left for them in Redis.

1. Read the configuration, which says where Redis is.
2. Choose among the processes that are registered there: by identity or a part of it, by host, or all.
3. Leave the signal for each, as Sidekiq's web page does; Ruby's processes obey too.
4. Show who was meant. The exit code is 1 when nobody was, or when a server is away, whose processes are not reached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from offsider.cli.connection import OPTIONS as CONNECTION, SETTINGS, load
from offsider.cli.failure import give_up
from offsider.core.errors import EmbeddedProcess, OffsiderError, RedisFailure
from offsider.inspector.everywhere import ask_all, split
from offsider.inspector.process import SIGNAL_SECONDS, SIGNAL_SECONDS_OF_RUBY, Process, ProcessSet
from offsider.wiring.config import Config
from offsider.wiring.nearest import suggest

Function = TypeVar("Function", bound=Callable[..., Any])

# An identity and its queues shall not be broken into lines where nobody looks at a screen.
PLAIN_WIDTH = 200


class NobodyMeant(OffsiderError):
    """No registered process is meant by the command line, or it does not say which of several."""


@dataclass(frozen=True)
class Target:
    """Which processes a command line means; click.UsageError unless it gives exactly one of the three."""

    identity: str = ""
    host: str = ""
    all: bool = False

    def __post_init__(self) -> None:
        if sum(map(bool, (self.identity, self.host, self.all))) != 1:
            raise click.UsageError("which workers? Give one of IDENTITY, --host H and --all.")

    def choose(self, processes: Sequence[Process]) -> list[Process]:
        """Those that are meant.

        Raises:
            NobodyMeant: the message names the nearest, or those among which it does not choose.
        """
        if not processes:
            raise NobodyMeant("no worker is registered")
        if self.all:
            return list(processes)
        if self.host:
            return _of_host(self.host, processes)
        return [_of_identity(self.identity, processes)]


def _of_host(host: str, processes: Sequence[Process]) -> list[Process]:
    found = [process for process in processes if process.hostname == host]
    if not found:
        known = sorted({process.hostname for process in processes})
        raise NobodyMeant(f"no worker is registered on the host {host}{suggest(host, known) or _list(known)}")
    return found


def _of_identity(part: str, processes: Sequence[Process]) -> Process:
    exact = [process for process in processes if process.identity == part]
    found = exact or [process for process in processes if part in process.identity]
    known = [process.identity for process in processes]
    if not found:
        near = suggest(part, known) or suggest(part, (piece for name in known for piece in name.split(":")))
        raise NobodyMeant(f"no worker is registered as {part}{near or _list(known)}")
    if len(found) > 1:
        raise NobodyMeant(f"{part} is a part of several{_list([process.identity for process in found])}")
    return found[0]


def _list(names: Sequence[str], most: int = 5) -> str:
    return f": {', '.join(names[:most])}{', …' if len(names) > most else ''}"


def signal_all(processes: Sequence[Process], name: str) -> dict[str, str]:
    """Leave a signal for each; answers why not, by identity, for those that take none.

    Raises:
        RedisFailure: the server is away.
    """
    refused: dict[str, str] = {}
    for process in processes:
        try:
            process.signal(name)
        except EmbeddedProcess as error:
            refused[process.identity] = str(error)
    return refused


def show(processes: Sequence[Process], effect: str, refused: dict[str, str]) -> None:
    """A table of those that were meant."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("process", "tag", "busy", "queues", ""):
        table.add_column(title, overflow="fold")
    for process in processes:
        what = "part of another program: not signalled" if process.identity in refused else effect
        busy = f"{process.busy} of {process.concurrency}"
        cells = (process.identity, process.tag, busy, ", ".join(process.queues), what)
        table.add_row(*map(Text, cells))  # as they are: a tag in brackets is no markup
    console.print(table)


def run(name: str, effect: str, given: Mapping[str, Any]) -> int:
    """Carry out one of the words; answers the exit code."""
    target = Target(given["identity"], given["host"], given["everyone"])
    try:
        registered, away = _registered(load(given["config"], given["environment"]), given["server"])
        for server, why in away.items():
            give_up(f"the workers of {server} are not reached: {why}")
        processes = target.choose(registered)
        refused = signal_all(processes, name)
    except OffsiderError as error:
        return give_up(str(error))
    if target.identity and refused:
        return give_up(refused[processes[0].identity])
    show(processes, effect, refused)
    signalled = len(processes) - len(refused)
    if not signalled:
        return give_up("none of them was signalled")
    click.echo(
        f"{signalled} signalled: each acts within {SIGNAL_SECONDS} s, "
        f"a process of Ruby's within {SIGNAL_SECONDS_OF_RUBY} s"
    )
    return 1 if away else 0


def _registered(config: Config, server: str | None) -> tuple[list[Process], Mapping[str, RedisFailure]]:
    """Those of one server, or of all that answer, and the servers that do not. Raises RedisFailure when none does."""
    if server:
        return list(ProcessSet(config.for_server(server))), {}
    found, away = split(ask_all(config, lambda there: list(ProcessSet(there))))
    return [process for there in found.values() for process in there], away


def options(function: Function) -> Function:
    """Add what the three words share: whom they mean, and where Redis is."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


OPTIONS = (
    click.argument("identity", required=False, default=""),
    click.option("--host", metavar="H", default="", help="Every worker on this host."),
    click.option("--all", "everyone", is_flag=True, help="Every worker that is registered."),
    *CONNECTION,
    click.option("--server", metavar="NAME", help="Only workers of this one of the configuration's servers."),
)


@click.command(context_settings=SETTINGS)
@options
def quiet(**given: Any) -> None:
    """Have workers take no further jobs; running ones go on, and the processes stay.

    IDENTITY is host:pid:nonce, as the worker's log and the web page show it, or a part of it that no other worker has.
    """
    sys.exit(run("TSTP", "takes no further jobs", given))


@click.command(context_settings=SETTINGS)
@options
def stop(**given: Any) -> None:
    """Stop workers; their running jobs have the usual time, what is left goes back to its queue.

    IDENTITY is host:pid:nonce, as the worker's log and the web page show it, or a part of it that no other worker has.
    """
    sys.exit(run("TERM", "stops", given))


@click.command(context_settings=SETTINGS)
@options
def dump(**given: Any) -> None:
    """Have workers write to their own log what every thread is doing.

    IDENTITY is host:pid:nonce, as the worker's log and the web page show it, or a part of it that no other worker has.
    """
    sys.exit(run("TTIN", "writes its threads to its log", given))
