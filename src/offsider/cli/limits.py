"""``offsider limits``: how many jobs of each class may run at one time, what is parked, and changing that."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import click

from offsider.cli.connection import SERVER, SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.cli.quantities import grouped
from offsider.core.errors import OffsiderError
from offsider.core.wording import counted

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits import Limit, Limits

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
    """
    context.obj = (config, environment, server)
    if context.invoked_subcommand is None:
        sys.exit(_with_limits(context.obj, lambda found: _show(list(found), as_json=as_json)))


NAME = click.argument("name", metavar="CLASS")
NAMES = click.argument("names", metavar="CLASS...", nargs=-1, required=True)


@limits.command("set", context_settings=SETTINGS)
@NAME
@click.argument("limit", metavar="NUMBER", type=click.IntRange(0))
@click.pass_obj
def set_(connection: Connection, name: str, limit: int) -> None:
    """Let so many jobs of a class run at one time, whatever the code says; 0: no limit."""

    def act(found: Limits) -> None:
        found.set(name, limit)
        click.echo(f"{plain(name)}: {f'limit {limit}' if limit else 'no limit'}")

    sys.exit(_with_limits(connection, act))


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
@click.pass_obj
def clear(connection: Connection, name: str, *, delete: bool, yes: bool) -> None:
    """Put the parked jobs of a class into the quarantine, or delete them."""

    def act(found: Limits) -> None:
        parked = counted(found.find(name).parked, "parked job")
        if not yes and _asks():
            click.confirm(f"{'Delete' if delete else 'Put aside'} {parked} of {plain(name)}?", abort=True)
        moved = found.delete(name) if delete else found.quarantine(name)
        click.echo(f"{plain(name)}: {counted(moved, 'job')} {'deleted' if delete else 'put aside'}")

    sys.exit(_with_limits(connection, act))


# ------------------------------------------------------------------------------------------ doing it


def _with_limits(connection: Connection, act: Callable[[Limits], None]) -> int:
    """Do something with the limits; answers the exit code."""
    from offsider.ext.concurrency_limits import Limits

    try:
        act(Limits(load(*connection)))
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _asks() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def _each(connection: Connection, names: Sequence[str], act: Callable[[Limits, str], str]) -> int:
    def all_of_them(found: Limits) -> None:
        for name in names:
            click.echo(f"{plain(name)}: {act(found, name)}")

    return _with_limits(connection, all_of_them)


def _show(found: Sequence[Limit], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([asdict(limit) for limit in found], indent=2))
    else:
        click.echo(_table(found) if found else "No class has a concurrency limit.")


def _table(found: Sequence[Limit]) -> str:
    rows = [("CLASS", "LIMIT", "IN USE", "PARKED", "")]
    rows += [(plain(one.name), _limit(one), grouped(one.in_use), grouped(one.parked), _origin(one)) for one in found]
    name, limit, in_use, parked = (max(len(row[column]) for row in rows) for column in range(4))
    lines = (f"{r[0]:<{name}}  {r[1]:>{limit}}  {r[2]:>{in_use}}  {r[3]:>{parked}}  {r[4]}" for r in rows)
    return "\n".join(line.rstrip() for line in lines)


def _limit(limit: Limit) -> str:
    if limit.paused:
        return "paused"
    return "none" if limit.limit is None else grouped(limit.limit)


def _origin(limit: Limit) -> str:
    return "" if limit.set_to is None else "set at run time"
