"""``offsider switches``: classes whose jobs are dropped or put off instead of run, and setting and clearing that."""

from __future__ import annotations

import getpass
import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from offsider.cli.connection import SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.cli.quantities import ago, duration, grouped
from offsider.cli.span import seconds_typed
from offsider.core.errors import OffsiderError
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from offsider.inspector import Switches, SwitchInForce
    from offsider.wiring.config import Config

_MOST_LETTERS = 500


class UnknownSwitch(OffsiderError):
    """No switch is set for this class; the message names the nearest."""


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for programs.")
@click.pass_context
def switches(context: click.Context, config: str | None, environment: str | None, *, as_json: bool) -> None:
    """Show the classes whose jobs are dropped or put off by all workers, instead of run.

    The words drop, defer and clear set switches and take them away. Workers act upon them within a second or two; jobs
    that run already go on.
    """
    context.obj = (config, environment)
    if context.invoked_subcommand is None:
        sys.exit(run(config, environment, as_json=as_json))


def run(file: str | None, environment: str | None, *, as_json: bool) -> int:
    """Show the table; answers the exit code."""
    from offsider.inspector import Switches

    try:
        seen = Switches(load(file, environment)).look()
    except OffsiderError as error:
        return give_up(str(error))
    if as_json:
        click.echo(json.dumps([asdict(switch) for switch in seen.switches], indent=2))
    elif seen.switches:
        click.echo(switch_table(seen.switches, time.time()))
    elif not seen.away:
        click.echo("No switch is set: the jobs of all classes run.")
    for server, why in seen.away.items():
        give_up(f"the switches of {server} cannot be shown: {why}")
    return 1 if seen.away else 0


def switch_table(found: Sequence[SwitchInForce], now: float) -> str:
    """A line for each class, and one below it for whatever else there is to say."""
    rows = [("CLASS", "JOBS ARE", "SINCE", "ENDS", "SO FAR")]
    rows += [
        (plain(one.name), done(one), ago(one.since, now), ago(one.until, now) or "-", grouped(one.acted))
        for one in found
    ]
    name, what, since, ends = (max(len(row[column]) for row in rows) for column in range(4))
    head, *lines = [f"{r[0]:<{name}}  {r[1]:<{what}}  {r[2]:<{since}}  {r[3]:<{ends}}  {r[4]}" for r in rows]
    noted = ["\n".join([line, *_notes(one)]) for line, one in zip(lines, found, strict=True)]
    return "\n".join([head, *noted])


def done(switch: SwitchInForce) -> str:
    """``deferred by 5 min 0 s``, ``dropped``, ``deleted``."""
    if switch.action == "defer":
        return f"deferred by {duration(switch.delay_seconds)}"
    return "dropped" if switch.keep else "deleted"


def _notes(switch: SwitchInForce) -> list[str]:
    """What else there is to say, below its line."""
    said = [text for text in (switch.by and f"by {switch.by}", switch.reason) if text]
    notes = [": ".join(said)] if said else []
    if switch.missing_on:
        notes.append(f"not on {', '.join(switch.missing_on)}: set it once more")
    if switch.differs_on:
        notes.append(f"another one on {', '.join(switch.differs_on)}: set it once more")
    return [f"    {plain(note, _MOST_LETTERS)}" for note in notes]


# ------------------------------------------------------------------------------------- acting on them

NAMES = click.argument("names", metavar="CLASS...", nargs=-1, required=True)
LASTING = click.option(
    "--for", "lasting", callback=seconds_typed, metavar="TIME", help="End by itself after 90s, 5m, 2h or 1d."
)
REASON = click.option("--reason", default="", metavar="TEXT", help="Why, for the others who see it.")


@switches.command(context_settings=SETTINGS)
@NAMES
@click.option("--delete", is_flag=True, help="Delete the jobs for good; else they go to the quarantine.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask first.")
@LASTING
@REASON
@click.pass_obj
def drop(
    connection: tuple[str | None, str | None],
    names: tuple[str, ...],
    lasting: float | None,
    reason: str,
    *,
    delete: bool,
    yes: bool,
) -> None:
    """Have all workers put the jobs of these classes into the quarantine, instead of running them.

    From there they can be restored: in the web page, or by offsider.inspector. With --delete they are gone, and it
    asks first.
    """
    if delete and not yes:
        click.confirm(f"Delete all jobs of {', '.join(names)} that come up, for good?", abort=True)

    def act(found: Switches, name: str) -> None:
        found.drop(name, delete=delete, lasting=lasting, by=_myself(), reason=reason)

    sys.exit(_set(connection, names, act))


@switches.command(context_settings=SETTINGS)
@NAMES
@click.option("--delay", callback=seconds_typed, default="5m", metavar="TIME", help="Put off by so much. Default: 5m.")
@LASTING
@REASON
@click.pass_obj
def defer(
    connection: tuple[str | None, str | None],
    names: tuple[str, ...],
    delay: float,
    lasting: float | None,
    reason: str,
) -> None:
    """Have all workers put off the jobs of these classes, again and again, instead of running them."""

    def act(found: Switches, name: str) -> None:
        found.defer(name, delay, lasting=lasting, by=_myself(), reason=reason)

    sys.exit(_set(connection, names, act))


@switches.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def clear(connection: tuple[str | None, str | None], names: tuple[str, ...]) -> None:
    """Let jobs of these classes run again. Deferred ones come up when their time has come."""
    sys.exit(_clear(connection, names))


def _set(connection: tuple[str | None, str | None], names: Sequence[str], act: Callable[[Switches, str], None]) -> int:
    def set_one(config: Config, found: Switches, name: str) -> None:
        act(found, name)
        _tell(config, found.find(name))

    return _each(connection, names, set_one)


def _each(
    connection: tuple[str | None, str | None], names: Sequence[str], act: Callable[[Config, Switches, str], None]
) -> int:
    """Act on each class, whatever became of the others; answers the exit code."""
    from offsider.inspector import Switches

    code = 0
    try:
        config = load(*connection)
        found = Switches(config)
    except OffsiderError as error:
        return give_up(str(error))
    for name in names:
        try:
            act(config, found, name)
        except OffsiderError as error:
            code = give_up(str(error))
    return code


def _tell(config: Config, switch: SwitchInForce | None) -> None:
    from offsider.inspector.switches import known_jobs

    if switch is None:  # cleared by somebody else meanwhile
        return
    click.echo(f"{plain(switch.name)}: jobs are {done(switch)} from now on")
    known = known_jobs(config)
    if known and switch.name not in known:
        # Jobs of a class that was removed are a reason to drop them, so it is set all the same.
        click.echo(f"no live worker knows a job of this name{suggest(switch.name, known)}", err=True)


def _clear(connection: tuple[str | None, str | None], names: Sequence[str]) -> int:
    def clear_one(_config: Config, found: Switches, name: str) -> None:
        if not found.clear(name):
            others = [switch.name for switch in found]
            raise UnknownSwitch(f"no switch is set for {name}{suggest(name, others)}")
        click.echo(f"{plain(name)}: jobs run again")

    return _each(connection, names, clear_one)


def _myself() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without this user
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
