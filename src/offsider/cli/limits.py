"""``offsider limits``: how many jobs of each class may run at one time, what is parked, and changing that."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import click

from offsider.cli.application import load_application
from offsider.cli.connection import SERVER, SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.cli.quantities import grouped
from offsider.core.errors import OffsiderError, RedisFailure
from offsider.core.wording import counted
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits import Limit, Limits
    from offsider.wiring.config import Config

#: The configuration file, the environment, and the server.
Connection: TypeAlias = tuple[str | None, str | None, str | None]


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@SERVER
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for programs.")
@click.pass_context
def limits(
    context: click.Context, config: str | None, environment: str | None, server: str | None, *, as_json: bool
) -> None:
    """Show the concurrency limits of classes: how many of their jobs run at one time, and how many are parked.

    The words below change that for all workers: at once for classes that have a limit, within a second for others.
    With several servers all of them are shown and changed, unless one is named. Each has slots of its own.
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
    """Let so many jobs of a class run at one time, whatever the code says; 0: no limit."""

    def act(found: Limits, name: str) -> str:
        found.set(name, limit)
        return f"limit {limit}" if limit else "no limit"

    sys.exit(_each(connection, [name], act))


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def unset(connection: Connection, names: tuple[str, ...]) -> None:
    """Go by the limit in code again."""

    def act(found: Limits, name: str) -> str:
        found.unset(name)
        limit = found.find(name).declared
        return "no limit in code" if limit is None else f"limit {limit}, as in code"

    sys.exit(_each(connection, names, act))


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: Connection, names: tuple[str, ...]) -> None:
    """Let no job of these classes begin; workers park those that they take. Jobs that run go on."""
    sys.exit(_each(connection, names, lambda found, name: "paused" if found.pause(name) else "was paused already"))


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def resume(connection: Connection, names: tuple[str, ...]) -> None:
    """Let paused classes go on."""
    sys.exit(_each(connection, names, lambda found, name: "goes on" if found.resume(name) else "was not paused"))


@limits.command(context_settings=SETTINGS)
@NAME
@click.option("--delete", is_flag=True, help="Delete them for good; else they go to the quarantine.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask first.")
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="The application: its other extensions free what such jobs hold, as locks. Default: worker.require.",
)
@click.pass_obj
def clear(connection: Connection, name: str, require: tuple[str, ...], *, delete: bool, yes: bool) -> None:
    """Put the parked jobs of a class into the quarantine, or delete them."""

    def act(servers: Sequence[Limits]) -> None:
        parked = counted(sum(found.find(name).parked for found in servers), "parked job")
        if not yes and _asks():
            click.confirm(f"{'Delete' if delete else 'Put aside'} {parked} of {plain(name)}?", abort=True)
        moved = sum(found.delete(name) if delete else found.quarantine(name) for found in servers)
        click.echo(f"{plain(name)}: {counted(moved, 'job')} {'deleted' if delete else 'put aside'}")

    sys.exit(_run(connection, act, lambda config: load_application(require or config.worker.require, config)))


# ------------------------------------------------------------------------------------------ doing it


def _run(
    connection: Connection,
    act: Callable[[Sequence[Limits]], None],
    prepare: Callable[[Config], object] = lambda _config: None,
) -> int:
    """Do something with the limits of each server, the own one first; answers the exit code."""
    try:
        act(_of_servers(connection, prepare))
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _of_servers(connection: Connection, prepare: Callable[[Config], object]) -> list[Limits]:
    from offsider.ext.concurrency_limits import Limits

    file, environment, server = connection
    config = load(file, environment)
    prepare(config)
    if server:
        return [Limits(config.for_server(server), everywhere=False)]
    return [Limits(config.for_server(name)) for name in config.servers]


def _each(connection: Connection, names: Sequence[str], act: Callable[[Limits, str], str]) -> int:
    """Act on each class, also when one before it could not be changed everywhere."""

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
    """It may be a class whose workers do not run yet, so it is changed all the same."""
    with suppress(RedisFailure):  # a server that is away must not keep the others from being changed
        known = limits.known_names()
        if known and name not in known:
            click.echo(f"no live worker knows a job of this name{suggest(name, known)}", err=True)


def _asks() -> bool:
    """Whether somebody is there to answer."""
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
    rows = [("CLASS", "LIMIT", "IN USE", "PARKED", "SERVER", "")]
    rows += [
        (plain(one.name), _limit(one), grouped(one.in_use), grouped(one.parked), plain(one.server), _origin(one))
        for one in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(_line(row, widths, several=several) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int], *, several: bool) -> str:
    numbers = [f"{text:>{width}}" for text, width in zip(row[1:4], widths[1:4], strict=True)]
    server = [f"{row[4]:<{widths[4]}}"] if several else []
    return "  ".join([f"{row[0]:<{widths[0]}}", *numbers, *server, row[5]]).rstrip()


def _limit(limit: Limit) -> str:
    if limit.paused:
        return "paused"
    return "none" if limit.limit is None else grouped(limit.limit)


def _origin(limit: Limit) -> str:
    return "" if limit.set_to is None else "set at run time"
