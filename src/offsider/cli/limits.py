"""``offsider limits``: show and change concurrency limits, and clear held jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import click

from offsider.cli.application import load_application
from offsider.cli.command import SERVER, SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.text import aligned, grouped, plain
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError, RedisFailure
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.ext.concurrency_limits import Limits

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.ext.concurrency_limits import Limit

#: The configuration file, the environment, and the server.
Connection: TypeAlias = tuple[str | None, str | None, str | None]


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def limits(
    context: click.Context, config: str | None, environment: str | None, server: str | None, *, as_json: bool
) -> None:
    """Show the concurrency limits of classes, with their running and held jobs.

    The subcommands change limits for all workers: at once for classes that already have a limit, within a second for
    other classes. They apply to every server of the configuration, or to the one that --server names. Each server
    has separate slots.
    """
    context.obj = (config, environment, server)
    if context.invoked_subcommand is None:
        sys.exit(_run(context.obj, lambda found: _show(found, as_json=as_json)))


NAME = click.argument("name", metavar="CLASS")
NAMES = click.argument("names", metavar="CLASS...", nargs=-1, required=True)


@limits.command("set", context_settings=SETTINGS)
@NAME
@click.argument("limit", metavar="NUMBER", type=click.IntRange(0))
@click.pass_obj
def set_(connection: Connection, name: str, limit: int) -> None:
    """Cap how many jobs of a class run at the same time, overriding the code; 0 removes the limit."""

    def act(found: Limits, name: str) -> str:
        found.set(name, limit)
        return f"limit {limit}" if limit else "no limit"

    sys.exit(_each(connection, [name], act))


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def unset(connection: Connection, names: tuple[str, ...]) -> None:
    """Remove a limit that was set at run time, so that the limit in the code applies."""

    def act(found: Limits, name: str) -> str:
        found.unset(name)
        limit = found.find(name).declared
        return "no limit in code" if limit is None else f"limit {limit}, as in code"

    sys.exit(_each(connection, names, act))


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: Connection, names: tuple[str, ...]) -> None:
    """Start no more jobs of these classes; workers hold the jobs that they claim. Running jobs continue."""
    sys.exit(_each(connection, names, lambda found, name: "paused" if found.pause(name) else "already paused"))


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def resume(connection: Connection, names: tuple[str, ...]) -> None:
    """Resume paused classes."""
    sys.exit(_each(connection, names, lambda found, name: "resumed" if found.resume(name) else "was not paused"))


@limits.command(context_settings=SETTINGS)
@NAME
@click.option("--delete", is_flag=True, help="Delete the jobs permanently instead of quarantining them.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="Application whose extensions release resources of these jobs, such as locks. Default: worker.require.",
)
@click.pass_obj
def clear(connection: Connection, name: str, require: tuple[str, ...], *, delete: bool, yes: bool) -> None:
    """Move the held jobs of a class to the quarantine, or delete them."""

    def act(servers: Sequence[Limits]) -> None:
        held = counted(sum(found.find(name).held for found in servers), "held job")
        if not yes and _asks():
            click.confirm(f"{'Delete' if delete else 'Quarantine'} {held} of {plain(name)}?", abort=True)
        moved = sum(found.delete(name) if delete else found.quarantine(name) for found in servers)
        click.echo(f"{plain(name)}: {counted(moved, 'job')} {'deleted' if delete else 'quarantined'}")

    sys.exit(_run(connection, act, lambda config: load_application(require or config.worker.require, config)))


# ------------------------------------------------------------------------------------------ helpers


def _run(
    connection: Connection,
    act: Callable[[Sequence[Limits]], None],
    prepare: Callable[[Config], object] = lambda _config: None,
) -> int:
    """Apply ``act`` to the limits of each server, the main one first, and return the exit code."""
    try:
        act(_of_servers(connection, prepare))
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _of_servers(connection: Connection, prepare: Callable[[Config], object]) -> list[Limits]:
    file, environment, server = connection
    config = load(file, environment)
    prepare(config)
    if server:
        return [Limits(Installation.of(config, server), everywhere=False)]
    return [Limits(Installation.of(config, name)) for name in config.servers]


def _each(connection: Connection, names: Sequence[str], act: Callable[[Limits, str], str]) -> int:
    """Act on each class, even if an earlier one could not be changed on every server; return the exit code."""

    def all_of_them(servers: Sequence[Limits]) -> None:
        found = servers[0]
        failures: list[RedisFailure] = []
        for given in names:
            name = given
            try:
                name = found.name_of(given)
                click.echo(f"{plain(name)}: {act(found, name)}")
            except RedisFailure as error:
                failures.append(error)
                click.echo(f"{plain(name)}: {error}", err=True)
            _warn_of_unknown(found, name)
        if failures:
            raise failures[0]

    return _run(connection, all_of_them)


def _warn_of_unknown(limits: Limits, name: str) -> None:
    """Warn of an unknown class. It is changed anyway, since its workers may not run yet."""
    with suppress(RedisFailure):  # an unreachable server must not prevent changes on the others
        known = limits.known_names()
        if known and name not in known:
            click.echo(f"no live worker knows this class{suggest(name, known)}", err=True)


def _asks() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin.isatty()


def _show(servers: Sequence[Limits], *, as_json: bool) -> None:
    found: list[Limit] = []
    failures: list[RedisFailure] = []
    for limits in servers:
        try:
            found += limits
        except RedisFailure as error:
            failures.append(error)
    if as_json:
        click.echo(json.dumps([asdict(limit) for limit in found], indent=2))
    elif found or not failures:
        click.echo(_table(found, several=len(servers) > 1) if found else "No class has a concurrency limit.")
    if failures:
        raise failures[0]


def _table(found: Sequence[Limit], *, several: bool) -> str:
    rows = [("CLASS", "LIMIT", "IN USE", "HELD", *(["SERVER"] if several else []), "")]
    for one in found:
        server = [plain(one.server)] if several else []
        numbers = _limit(one), grouped(one.in_use), grouped(one.held)
        rows.append((plain(one.name), *numbers, *server, _origin(one)))
    return "\n".join(aligned(rows, numbers=(1, 2, 3)))


def _limit(limit: Limit) -> str:
    if limit.paused:
        return "paused"
    return "none" if limit.limit is None else grouped(limit.limit)


def _origin(limit: Limit) -> str:
    return "" if limit.set_to is None else "set at run time"
