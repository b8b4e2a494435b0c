"""``offsider controls``: run, limit, hold, defer or drop the jobs of a class on all workers."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.command import (
    JSON,
    MAX_LETTERS,
    SETTINGS,
    YES,
    ConnectionOptions,
    asks,
    connected,
    print_json,
    report_failed_servers,
    require,
)
from offsider.cli.failure import give_up
from offsider.cli.text import ago, aligned, confirm, duration, grouped, plain, say, seconds_typed
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.inspector.all_servers import query_all, split
from offsider.inspector.controls import Controls

if TYPE_CHECKING:
    from offsider.core.controls import Control
    from offsider.inspector.controls import ControlInForce, GroupSeen


class UnknownControl(OffsiderError):
    """The subject has no control; the message suggests a similar one."""


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connected()
@JSON
@click.pass_context
def controls(context: click.Context, connection: ConnectionOptions, *, as_json: bool) -> int:
    """Show the controls, and the limits with their running and held jobs.

    A SUBJECT is a class, a class with a key (shop.sync[acme]), queue=NAME, or a selector as in routing rules
    (urgency=low&tags=export; * for every job). Workers apply a change within two seconds; running jobs continue.
    """
    context.obj = connection
    if context.invoked_subcommand is not None:
        return 0
    config = connection.load()
    seen = Controls(config).look()
    groups, away = split(query_all(Installation.of(config), lambda server: Controls(server).groups()))
    found = [group for each in groups.values() for group in each]
    if as_json:
        print_json({"controls": seen.controls, "groups": found})
    else:
        say(*(control_table(seen.controls, time.time()) if seen.controls else ["No controls are set."]))
        if found:
            say("", *group_table(found, several=len(groups) > 1))
    return report_failed_servers({**away, **seen.away}, "cannot read the controls of")


def control_table(found: Sequence[ControlInForce], now: float) -> list[str]:
    """Return a table with a row for each subject, and its notes below the row."""
    rows = [("SUBJECT", "JOBS", "SINCE", "ENDS", "AFFECTED")]
    rows += [
        (
            one.subject,
            described(one),
            ago(one.since, now) if one.since else "-",
            ago(one.until, now) or "-",
            grouped(one.acted),
        )
        for one in found
    ]
    head, *lines = aligned(rows)
    noted = [[line, *_notes(one)] for line, one in zip(lines, found, strict=True)]
    return [head, *(line for each in noted for line in each)]


def described(control: Control) -> str:
    """``deferred by 5 min 0 s``, ``dropped``, ``held``."""
    return f"deferred by {duration(control.delay_seconds)}" if control.action == "defer" else control.described


def _notes(control: ControlInForce) -> list[str]:
    """Return the operator, the reason, and differences between servers."""
    origin = [text for text in (control.by and f"by {control.by}", control.reason) if text]
    notes = [": ".join(origin)] if origin else []
    if control.missing_on:
        notes.append(f"not set on {', '.join(control.missing_on)}: set it again")
    if control.differs_on:
        notes.append(f"different on {', '.join(control.differs_on)}: set it again")
    return [f"    {plain(note, MAX_LETTERS)}" for note in notes]


def group_table(found: Sequence[GroupSeen], *, several: bool) -> list[str]:
    """Return a table of the limits in code, slots in use and held jobs."""
    rows = [("GROUP", "LIMIT IN CODE", "IN USE", "HELD", *(["SERVER"] if several else []))]
    for one in found:
        limits = ["" if one.limit is None else grouped(one.limit)]
        limits += [f"{one.rate.starts} in {duration(one.rate.window_ms / 1000)}"] if one.rate.starts else []
        limit = ", ".join(filter(None, limits)) or "-"
        rows.append((one.name, limit, grouped(one.in_use), grouped(one.held), *([one.server] if several else [])))
    return aligned(rows, numbers=(2, 3))


# ------------------------------------------------------------------------------------- changes

SUBJECTS = click.argument("subjects", metavar="SUBJECT...", nargs=-1, required=True)
SUBJECT = click.argument("subject", metavar="SUBJECT")
LASTING = click.option(
    "--for",
    "lasting",
    callback=seconds_typed,
    metavar="TIME",
    help="End the control after 90s, 5m, 2h or 1d.",
)
REASON = click.option("--reason", default="", metavar="TEXT", help="Reason, shown with the control.")


@controls.command(context_settings=SETTINGS)
@SUBJECTS
@LASTING
@REASON
@click.pass_obj
def run(connection: ConnectionOptions, /, subjects: tuple[str, ...], **origin: Any) -> int:
    """Run these jobs without a limit, whatever the code and less specific controls say."""
    return _set(connection, subjects, lambda found, subject: found.run(subject, **_origin(origin)))


@controls.command(context_settings=SETTINGS)
@SUBJECT
@click.argument("limit", metavar="NUMBER", type=click.IntRange(1))
@LASTING
@REASON
@click.pass_obj
def limit(connection: ConnectionOptions, /, subject: str, limit: int, **origin: Any) -> int:
    """Run up to NUMBER of these jobs at the same time, overriding the limit in the code.

    The limit of a class with a key applies to each key, the limit of a selector or queue to all its jobs together.
    """
    return _set(connection, [subject], lambda found, subject: found.limit(subject, limit, **_origin(origin)))


@controls.command(context_settings=SETTINGS)
@SUBJECTS
@LASTING
@REASON
@click.pass_obj
def hold(connection: ConnectionOptions, /, subjects: tuple[str, ...], **origin: Any) -> int:
    """Start no more of these jobs; workers hold the ones that they claim. Queues are paused."""
    return _set(connection, subjects, lambda found, subject: found.hold(subject, **_origin(origin)))


@controls.command(context_settings=SETTINGS)
@SUBJECTS
@click.option("--delay", callback=seconds_typed, default="5m", metavar="TIME", help="Delay of each job. Default: 5m.")
@LASTING
@REASON
@click.pass_obj
def defer(connection: ConnectionOptions, /, subjects: tuple[str, ...], delay: float, **origin: Any) -> int:
    """Reschedule these jobs, repeatedly, instead of running them."""
    return _set(connection, subjects, lambda found, subject: found.defer(subject, delay, **_origin(origin)))


@controls.command(context_settings=SETTINGS)
@SUBJECTS
@click.option("--delete", is_flag=True, help="Delete the jobs permanently instead of moving them to the quarantine.")
@YES
@LASTING
@REASON
@click.pass_obj
def drop(connection: ConnectionOptions, /, subjects: tuple[str, ...], *, delete: bool, yes: bool, **origin: Any) -> int:
    """Move these jobs to the quarantine instead of running them.

    You can restore them in the web UI, or with offsider.inspector. With --delete they are deleted permanently, and
    the command asks for confirmation.
    """
    if delete and not yes:
        confirm(f"Drop jobs of {', '.join(subjects)}? Workers delete them permanently.")
    return _set(connection, subjects, lambda found, subject: found.drop(subject, delete=delete, **_origin(origin)))


controls.add_command(hold, "pause")


@controls.command(context_settings=SETTINGS)
@SUBJECTS
@click.pass_obj
def resume(connection: ConnectionOptions, subjects: tuple[str, ...]) -> int:
    """End the controls of these subjects. Held jobs return to their queues, deferred ones run when they are due."""

    def act(found: Controls, subject: str) -> None:
        if not found.resume(subject):
            others = [control.subject for control in found]
            raise UnknownControl(f"no control is set for {subject}{suggest(subject, others)}")
        say(f"{subject}: the control has ended")

    return _each(connection, subjects, act)


@controls.command(context_settings=SETTINGS)
@SUBJECT
@click.option("--delete", is_flag=True, help="Delete the jobs permanently instead of quarantining them.")
@YES
@require("Application whose extensions release resources of these jobs, such as locks. Default: worker.require.")
@click.pass_obj
def clear(connection: ConnectionOptions, subject: str, require: tuple[str, ...], *, delete: bool, yes: bool) -> None:
    """Move the held jobs of a subject to the quarantine, or delete them."""
    config = replace(connection, require=require).load_application()
    servers = [Controls(Installation.of(config, name)) for name in config.servers]
    held = counted(sum(found.count_held(subject) for found in servers), "held job")
    if not yes and asks():
        confirm(f"{'Delete' if delete else 'Quarantine'} {held} of {subject}?")
    moved = sum(found.delete_held(subject) if delete else found.quarantine_held(subject) for found in servers)
    say(f"{subject}: {counted(moved, 'job')} {'deleted' if delete else 'quarantined'}")


def _set(connection: ConnectionOptions, subjects: Sequence[str], act: Callable[[Controls, str], None]) -> int:
    def set_one(found: Controls, subject: str) -> None:
        act(found, subject)
        control = found.find(subject)
        if control is None:  # ended by another process since then
            return
        say(f"{subject}: jobs are now {described(control)}")
        known = found.unknown(subject)
        if known:
            # Only a warning: dropping the jobs of a class that no longer exists is a common reason for a control.
            say(f"no live worker declares this class{suggest(subject, known)}", err=True)

    return _each(connection, subjects, set_one)


def _each(connection: ConnectionOptions, subjects: Sequence[str], act: Callable[[Controls, str], None]) -> int:
    """Act on each subject, even if another one failed, and return the exit code."""
    code = 0
    found = Controls(connection.load())
    for subject in subjects:
        try:
            act(found, subject)
        except OffsiderError as error:
            code = give_up(str(error))
    return code


def _origin(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "by": myself()}


def myself() -> str:
    """Return the user and host name, as the author of a change."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without this user
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
