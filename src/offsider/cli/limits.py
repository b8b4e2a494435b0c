"""``offsider limits``: show and change concurrency limits, and clear held jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from offsider.cli.command import (
    JSON,
    ONE_SERVER,
    SETTINGS,
    YES,
    ConnectionOptions,
    asks,
    connected,
    print_json,
    require,
)
from offsider.cli.text import aligned, confirm, grouped, say
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.ext.concurrency_limits import Limits

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.ext.concurrency_limits import Limit


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connected(ONE_SERVER)
@JSON
@click.pass_context
def limits(context: click.Context, connection: ConnectionOptions, *, as_json: bool) -> None:
    """Show the concurrency limits of classes, with their running and held jobs.

    The subcommands change limits for all workers: at once for classes that already have a limit, within a second for
    other classes. They apply to every server of the configuration, or to the one that --server names. Each server
    has separate slots.
    """
    context.obj = connection
    if context.invoked_subcommand is None:
        _show(_of_servers(connection.load(), connection.server), as_json=as_json)


NAME = click.argument("name", metavar="CLASS")
NAMES = click.argument("names", metavar="CLASS...", nargs=-1, required=True)


@limits.command("set", context_settings=SETTINGS)
@NAME
@click.argument("limit", metavar="NUMBER", type=click.IntRange(0))
@click.pass_obj
def set_(connection: ConnectionOptions, name: str, limit: int) -> None:
    """Cap how many jobs of a class run at the same time, overriding the code; 0 removes the limit."""

    def act(found: Limits, name: str) -> str:
        found.set(name, limit)
        return f"limit {limit}" if limit else "no limit"

    _each(connection, [name], act)


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def unset(connection: ConnectionOptions, names: tuple[str, ...]) -> None:
    """Remove a limit that was set at run time, so that the limit in the code applies."""

    def act(found: Limits, name: str) -> str:
        found.unset(name)
        limit = found.find(name).declared
        return "no limit in code" if limit is None else f"limit {limit}, as in code"

    _each(connection, names, act)


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: ConnectionOptions, names: tuple[str, ...]) -> None:
    """Start no more jobs of these classes; workers hold the jobs that they claim. Running jobs continue."""
    _each(connection, names, lambda found, name: "paused" if found.pause(name) else "already paused")


@limits.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def resume(connection: ConnectionOptions, names: tuple[str, ...]) -> None:
    """Resume paused classes."""
    _each(connection, names, lambda found, name: "resumed" if found.resume(name) else "was not paused")


@limits.command(context_settings=SETTINGS)
@NAME
@click.option("--delete", is_flag=True, help="Delete the jobs permanently instead of quarantining them.")
@YES
@require("Application whose extensions release resources of these jobs, such as locks. Default: worker.require.")
@click.pass_obj
def clear(connection: ConnectionOptions, name: str, require: tuple[str, ...], *, delete: bool, yes: bool) -> None:
    """Move the held jobs of a class to the quarantine, or delete them."""
    servers = _of_servers(replace(connection, require=require).load_application(), connection.server)
    held = counted(sum(found.find(name).held for found in servers), "held job")
    if not yes and asks():
        confirm(f"{'Delete' if delete else 'Quarantine'} {held} of {name}?")
    moved = sum(found.delete(name) if delete else found.quarantine(name) for found in servers)
    say(f"{name}: {counted(moved, 'job')} {'deleted' if delete else 'quarantined'}")


# ------------------------------------------------------------------------------------------ helpers


def _of_servers(config: Config, server: str | None) -> list[Limits]:
    """Return the limits of the given server, or of each server, the main one first."""
    if server:
        return [Limits(Installation.of(config, server), everywhere=False)]
    return [Limits(Installation.of(config, name)) for name in config.servers]


def _each(connection: ConnectionOptions, names: Sequence[str], act: Callable[[Limits, str], str]) -> None:
    """Act on each class, even if an earlier one could not be changed on every server; then raise the first failure."""
    found = _of_servers(connection.load(), connection.server)[0]
    failures: list[RedisFailure] = []
    for given in names:
        name = given
        try:
            name = found.name_of(given)
            say(f"{name}: {act(found, name)}")
        except RedisFailure as error:
            failures.append(error)
            say(f"{name}: {error}", err=True)
        _warn_of_unknown(found, name)
    if failures:
        raise failures[0]


def _warn_of_unknown(limits: Limits, name: str) -> None:
    """Warn of an unknown class. It is changed anyway, since its workers may not run yet."""
    with suppress(RedisFailure):  # an unreachable server must not prevent changes on the others
        known = limits.known_names()
        if known and name not in known:
            say(f"no live worker declares this class{suggest(name, known)}", err=True)


def _show(servers: Sequence[Limits], *, as_json: bool) -> None:
    found: list[Limit] = []
    failures: list[RedisFailure] = []
    for limits in servers:
        try:
            found += limits
        except RedisFailure as error:
            failures.append(error)
    if as_json:
        print_json(found)
    elif found or not failures:
        say(*(_table(found, several=len(servers) > 1) if found else ["No class has a concurrency limit."]))
    if failures:
        raise failures[0]


def _table(found: Sequence[Limit], *, several: bool) -> list[str]:
    rows = [("CLASS", "LIMIT", "IN USE", "HELD", *(["SERVER"] if several else []), "")]
    for one in found:
        server = [one.server] if several else []
        numbers = _limit(one), grouped(one.in_use), grouped(one.held)
        rows.append((one.name, *numbers, *server, _origin(one)))
    return aligned(rows, numbers=(1, 2, 3))


def _limit(limit: Limit) -> str:
    if limit.paused:
        return "paused"
    return "none" if limit.limit is None else grouped(limit.limit)


def _origin(limit: Limit) -> str:
    return "" if limit.set_to is None else "set at run time"
