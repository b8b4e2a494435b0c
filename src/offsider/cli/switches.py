"""``offsider switches``: kill switches, which make workers drop or defer the jobs of a class."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from offsider.cli.command import (
    JSON,
    MAX_LETTERS,
    SETTINGS,
    YES,
    ConnectionOptions,
    connected,
    print_json,
    report_failed_servers,
)
from offsider.cli.failure import give_up
from offsider.cli.text import ago, aligned, confirm, duration, grouped, plain, say, seconds_typed
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.core.suggestions import suggest
from offsider.inspector import Switches
from offsider.inspector.switches import known_jobs

if TYPE_CHECKING:
    from offsider.inspector import SwitchInForce


class UnknownSwitch(OffsiderError):
    """No kill switch is set for this class; the message suggests a similar name."""


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connected()
@JSON
@click.pass_context
def switches(context: click.Context, connection: ConnectionOptions, *, as_json: bool) -> int:
    """Show the kill switches: the classes whose jobs all workers drop or defer instead of running them.

    Use drop or defer to set a switch and clear to remove it. Workers apply a change within two seconds; running
    jobs continue.
    """
    context.obj = connection
    if context.invoked_subcommand is not None:
        return 0
    seen = Switches(connection.load()).look()
    if as_json:
        print_json(seen.switches)
    elif seen.switches:
        say(*switch_table(seen.switches, time.time()))
    elif not seen.away:
        say("No kill switches are set.")
    return report_failed_servers(seen.away, "cannot read the switches of")


def switch_table(found: Sequence[SwitchInForce], now: float) -> list[str]:
    """Return a table with a row for each class, and its notes below the row."""
    rows = [("CLASS", "ACTION", "SINCE", "ENDS", "AFFECTED")]
    rows += [
        (one.name, done(one), ago(one.since, now), ago(one.until, now) or "-", grouped(one.acted)) for one in found
    ]
    head, *lines = aligned(rows)
    noted = [[line, *_notes(one)] for line, one in zip(lines, found, strict=True)]
    return [head, *(line for each in noted for line in each)]


def done(switch: SwitchInForce) -> str:
    """``deferred by 5 min 0 s``, ``dropped``, ``deleted``."""
    if switch.action == "defer":
        return f"deferred by {duration(switch.delay_seconds)}"
    return "dropped" if switch.keep else "deleted"


def _notes(switch: SwitchInForce) -> list[str]:
    """Return the operator, the reason, and differences between servers."""
    origin = [text for text in (switch.by and f"by {switch.by}", switch.reason) if text]
    notes = [": ".join(origin)] if origin else []
    if switch.missing_on:
        notes.append(f"not set on {', '.join(switch.missing_on)}: set it again")
    if switch.differs_on:
        notes.append(f"different on {', '.join(switch.differs_on)}: set it again")
    return [f"    {plain(note, MAX_LETTERS)}" for note in notes]


# ------------------------------------------------------------------------------------- changes

NAMES = click.argument("names", metavar="CLASS...", nargs=-1, required=True)
LASTING = click.option(
    "--for",
    "lasting",
    callback=seconds_typed,
    metavar="TIME",
    help="Remove the switch after 90s, 5m, 2h or 1d.",
)
REASON = click.option("--reason", default="", metavar="TEXT", help="Reason, shown with the switch.")


@switches.command(context_settings=SETTINGS)
@NAMES
@click.option("--delete", is_flag=True, help="Delete the jobs permanently instead of moving them to the quarantine.")
@YES
@LASTING
@REASON
@click.pass_obj
def drop(
    connection: ConnectionOptions,
    names: tuple[str, ...],
    lasting: float | None,
    reason: str,
    *,
    delete: bool,
    yes: bool,
) -> int:
    """Make all workers move the jobs of these classes to the quarantine instead of running them.

    You can restore them in the web UI, or with offsider.inspector. With --delete they are deleted permanently, and
    the command asks for confirmation.
    """
    if delete and not yes:
        confirm(f"Drop jobs of {', '.join(names)}? Workers delete them permanently.")

    def act(found: Switches, name: str) -> None:
        found.drop(name, delete=delete, lasting=lasting, by=_myself(), reason=reason)

    return _set(connection, names, act)


@switches.command(context_settings=SETTINGS)
@NAMES
@click.option("--delay", callback=seconds_typed, default="5m", metavar="TIME", help="Delay of each job. Default: 5m.")
@LASTING
@REASON
@click.pass_obj
def defer(
    connection: ConnectionOptions,
    names: tuple[str, ...],
    delay: float,
    lasting: float | None,
    reason: str,
) -> int:
    """Make all workers reschedule the jobs of these classes, repeatedly, instead of running them."""

    def act(found: Switches, name: str) -> None:
        found.defer(name, delay, lasting=lasting, by=_myself(), reason=reason)

    return _set(connection, names, act)


@switches.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def clear(connection: ConnectionOptions, names: tuple[str, ...]) -> int:
    """Let jobs of these classes run again. Deferred jobs run when their delay ends."""
    return _clear(connection, names)


def _set(connection: ConnectionOptions, names: Sequence[str], act: Callable[[Switches, str], None]) -> int:
    def set_one(here: Installation, found: Switches, name: str) -> None:
        act(found, name)
        _report(here, found.find(name))

    return _each(connection, names, set_one)


def _each(
    connection: ConnectionOptions, names: Sequence[str], act: Callable[[Installation, Switches, str], None]
) -> int:
    """Act on each class, even if another one failed, and return the exit code."""
    code = 0
    here = connection.installation()
    found = Switches(here)
    for name in names:
        try:
            act(here, found, name)
        except OffsiderError as error:
            code = give_up(str(error))
    return code


def _report(here: Installation, switch: SwitchInForce | None) -> None:
    if switch is None:  # cleared by another process since then
        return
    say(f"{switch.name}: jobs are now {done(switch)}")
    known = known_jobs(here)
    if known and switch.name not in known:
        # Only a warning: dropping the jobs of a class that no longer exists is a common reason for a switch.
        say(f"no live worker declares this class{suggest(switch.name, known)}", err=True)


def _clear(connection: ConnectionOptions, names: Sequence[str]) -> int:
    def clear_one(_here: Installation, found: Switches, name: str) -> None:
        if not found.clear(name):
            others = [switch.name for switch in found]
            raise UnknownSwitch(f"no kill switch is set for {name}{suggest(name, others)}")
        say(f"{name}: jobs run again")

    return _each(connection, names, clear_one)


def _myself() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without this user
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
