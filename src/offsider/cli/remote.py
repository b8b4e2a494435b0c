"""``offsider quiet``, ``stop`` and ``dump``: send signals to workers on any host, through Redis.

1. Read the configuration, which contains the Redis URL.
2. Select registered processes: by identity or a part of it, by host, or all.
3. Store the signal for each, as Sidekiq's web UI does; Sidekiq processes obey too.
4. Print the selected processes. The exit code is 1 if none was selected, or if a server is unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from offsider.cli.command import SETTINGS, ConnectionOptions, connected, report_failed_servers
from offsider.cli.failure import give_up
from offsider.cli.text import aligned, say
from offsider.core.errors import EmbeddedProcess, OffsiderError, RedisFailure
from offsider.core.suggestions import suggest
from offsider.inspector.all_servers import query_all, split
from offsider.inspector.process import SIGNAL_SECONDS, SIGNAL_SECONDS_OF_RUBY, Process, ProcessSet


class NoTarget(OffsiderError):
    """The command line matches no registered process, or IDENTITY matches several."""


@dataclass(frozen=True)
class SignalTarget:
    """The processes to signal, by identity, host or all; click.UsageError unless exactly one of them is given."""

    identity: str = ""
    host: str = ""
    all: bool = False

    def __post_init__(self) -> None:
        if sum(map(bool, (self.identity, self.host, self.all))) != 1:
            raise click.UsageError("Specify the workers: one of IDENTITY, --host H, --all.")

    def choose(self, processes: Sequence[Process]) -> list[Process]:
        """Return the selected processes.

        Raises:
            NoTarget: none or several match; the message suggests similar names or lists the matches.
        """
        if not processes:
            raise NoTarget("no worker is registered")
        if self.all:
            return list(processes)
        if self.host:
            return _of_host(self.host, processes)
        return [_of_identity(self.identity, processes)]


def _of_host(host: str, processes: Sequence[Process]) -> list[Process]:
    found = [process for process in processes if process.hostname == host]
    if not found:
        known = sorted({process.hostname for process in processes})
        raise NoTarget(f"no worker is registered on the host {host}{suggest(host, known) or _list(known)}")
    return found


def _of_identity(part: str, processes: Sequence[Process]) -> Process:
    exact = [process for process in processes if process.identity == part]
    found = exact or [process for process in processes if part in process.identity]
    known = [process.identity for process in processes]
    if not found:
        near = suggest(part, known) or suggest(part, (piece for name in known for piece in name.split(":")))
        raise NoTarget(f"no registered worker matches {part}{near or _list(known)}")
    if len(found) > 1:
        raise NoTarget(f"{part} matches several workers{_list([process.identity for process in found])}")
    return found[0]


def _list(names: Sequence[str], most: int = 5) -> str:
    return f": {', '.join(names[:most])}{', …' if len(names) > most else ''}"


def signal_all(processes: Sequence[Process], name: str) -> dict[str, str]:
    """Send a signal to each; return the reasons, by identity, of the processes that cannot be signaled.

    Raises:
        RedisFailure: the server is unreachable.
    """
    refused: dict[str, str] = {}
    for process in processes:
        try:
            process.signal(name)
        except EmbeddedProcess as error:
            refused[process.identity] = str(error)
    return refused


def show(processes: Sequence[Process], effect: str, refused: dict[str, str]) -> None:
    """Print a table of the selected processes."""
    rows = [("PROCESS", "TAG", "BUSY", "QUEUES", "")]
    for process in processes:
        what = "embedded in another program: not signaled" if process.identity in refused else effect
        busy = f"{process.busy} of {process.concurrency}"
        rows.append((process.identity, process.tag, busy, ", ".join(process.queues), what))
    say(*aligned(rows))


def run(name: str, effect: str, target: SignalTarget, connection: ConnectionOptions) -> int:
    """Run one of the commands, and return the exit code."""
    registered, away = _registered(connection)
    report_failed_servers(away, "cannot reach the workers of")
    processes = target.choose(registered)
    refused = signal_all(processes, name)
    if target.identity and refused:
        return give_up(refused[processes[0].identity])
    show(processes, effect, refused)
    signaled = len(processes) - len(refused)
    if not signaled:
        return give_up("no worker was signaled")
    say(
        f"{signaled} signaled: workers act within {SIGNAL_SECONDS} s, "
        f"Sidekiq processes within {SIGNAL_SECONDS_OF_RUBY} s"
    )
    return 1 if away else 0


def _registered(connection: ConnectionOptions) -> tuple[list[Process], Mapping[str, RedisFailure]]:
    """Return the processes, and the unreachable servers with the error. Raises RedisFailure if all are unreachable."""
    here = connection.installation()
    if connection.server:
        return list(ProcessSet(here)), {}
    found, away = split(query_all(here, lambda there: list(ProcessSet(there))))
    return [process for there in found.values() for process in there], away


def _command(name: str, signal: str, effect: str, what: str) -> click.Command:
    """Make a command that sends a signal; ``what`` is its help."""

    @click.command(name, context_settings=SETTINGS, help=f"{what}\n\n{IDENTITY}")
    @click.argument("identity", required=False, default="")
    @click.option("--host", metavar="H", default="", help="Every worker on this host.")
    @click.option("--all", "everyone", is_flag=True, help="Every registered worker.")
    @connected("Only workers of this server of the configuration.")
    def command(connection: ConnectionOptions, identity: str, host: str, *, everyone: bool) -> int:
        return run(signal, effect, SignalTarget(identity, host, everyone), connection)

    return command


IDENTITY = "IDENTITY is host:pid:nonce, as in the worker's log and the web UI, or a unique part of it."

quiet = _command(
    "quiet",
    "TSTP",
    "stops claiming jobs",
    "Stop workers from claiming jobs. Running jobs continue, and the processes stay.",
)
stop = _command(
    "stop",
    "TERM",
    "stops",
    "Stop workers. Running jobs have until the timeout to finish, then they are requeued.",
)
dump = _command(
    "dump",
    "TTIN",
    "logs the stacks of its threads",
    "Let workers write the stacks of all threads to their own log.",
)
