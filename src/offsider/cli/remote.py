"""``offsider quiet``, ``stop`` and ``dump``: send signals to workers on any host, through Redis.

1. Read the configuration, which contains the Redis URL.
2. Select registered processes: by identity or a part of it, by host, or all.
3. Store the signal for each, as Sidekiq's web UI does; Sidekiq processes obey too.
4. Print what each process does. The exit code is 1 if none was selected, or if a server is unreachable.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from offsider.cli.command import CONNECTION, ConnectionOptions, command, myself, report_failed_servers, server
from offsider.cli.failure import give_up
from offsider.cli.text import say
from offsider.core.errors import EmbeddedProcess, OffsiderError
from offsider.core.suggestions import suggest
from offsider.inspector.process import SIGNAL_SECONDS, SIGNAL_SECONDS_OF_RUBY, Process, ProcessSet
from offsider.screens import audit

SIGNALS = {"quiet": "TSTP", "stop": "TERM", "dump": "TTIN"}


class NoTarget(OffsiderError):
    """The command line matches no registered process, or IDENTITY matches several."""


def choose(processes: Sequence[Process], identity: str, host: str) -> list[Process]:
    """Return the processes of an identity or of a host; all without either.

    Raises:
        NoTarget: none or several match; the message suggests similar names or lists the matches.
    """
    if not processes:
        raise NoTarget("no worker is registered")
    if identity:
        return [_of_identity(identity, processes)]
    found = [process for process in processes if host in ("", process.hostname)]
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


def run(connection: ConnectionOptions, name: str, effect: str, identity: str, host: str) -> int:
    """Run one of the commands, and return the exit code."""
    found, away = connection.each_server(
        connection.installation(), lambda server: [(process, server) for process in ProcessSet(server)]
    )
    registered = [pair for pairs in found.values() for pair in pairs]
    report_failed_servers(away, "cannot reach the workers of")
    signaled = 0
    servers = {process.identity: server for process, server in registered}
    for process in choose([process for process, _ in registered], identity, host):
        try:
            process.signal(SIGNALS[name])
        except EmbeddedProcess as error:
            if identity:
                return give_up(str(error))
            say(f"{process.identity} is embedded in another program: not signaled")
        else:
            signaled += 1
            audit.done(servers[process.identity], f"processes.{name}", effect, who=myself(), subject=process.identity)
            say(f"{process.identity} {effect}")
    if not signaled:
        return give_up("no worker was signaled")
    limits = f"workers act within {SIGNAL_SECONDS} s, Sidekiq processes within {SIGNAL_SECONDS_OF_RUBY} s"
    say(f"{signaled} signaled: {limits}")
    return 1 if away else 0


def _command(name: str, effect: str, what: str) -> click.Command:
    """Make a command that sends a signal; ``what`` is its help."""

    @command(
        click.argument("identity", required=False, default=""),
        click.option("--host", metavar="H", default="", help="Every worker on this host."),
        click.option("--all", "everyone", is_flag=True, help="Every registered worker."),
        *CONNECTION,
        server("Only workers of this server of the configuration."),
        name=name,
        what=f"{what}\n\n{IDENTITY}",
    )
    def send(connection: ConnectionOptions, identity: str, host: str, *, everyone: bool) -> int:
        if sum(map(bool, (identity, host, everyone))) != 1:
            raise click.UsageError("Specify the workers: one of IDENTITY, --host H, --all.")
        return run(connection, name, effect, identity, host)

    return send


IDENTITY = "IDENTITY is host:pid:nonce, as in the worker's log and the web UI, or a unique part of it."

quiet = _command(
    "quiet", "stops claiming jobs",
    "Stop workers from claiming jobs. Running jobs continue, and the processes stay.",
)  # fmt: skip
stop = _command("stop", "stops", "Stop workers. Running jobs have until the timeout to finish, then they are requeued.")
dump = _command(
    "dump", "logs the stacks of its threads", "Let workers write the stacks of all threads to their own log."
)
