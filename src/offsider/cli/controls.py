"""``offsider controls``: run, limit, hold, defer or drop the jobs of a class on all workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from offsider.cli.command import YES, ConnectionOptions, command, for_each, myself
from offsider.cli.show import named
from offsider.cli.text import confirm, say, seconds_typed
from offsider.core.suggestions import suggest
from offsider.inspector.controls import Controls

controls = named("controls")
controls.help = """Show and change the controls of all workers.

A SUBJECT is a class, a class with a key (shop.sync[acme]), queue=NAME, or a selector as in routing rules
(urgency=low&tags=export; * for every job). Workers apply a change within two seconds; running jobs continue.
"""

SUBJECTS = click.argument("subjects", metavar="SUBJECT...", nargs=-1, required=True)
SUBJECT = click.argument("subject", metavar="SUBJECT")
LASTING = click.option(
    "--for", "lasting", callback=seconds_typed, metavar="TIME", help="End the control after 90s, 5m, 2h or 1d."
)
DELAY = click.option(
    "--delay", "seconds", callback=seconds_typed, default="5m", metavar="TIME",
    help="Delay of each job. Default: 5m.",
)  # fmt: skip
REASON = click.option("--reason", default="", metavar="TEXT", help="Reason, shown with the control.")


@command(SUBJECTS, LASTING, REASON, within=controls)
def run(connection: ConnectionOptions, /, subjects: Sequence[str], **origin: Any) -> int:
    """Run these jobs without a limit, overriding the code and less specific controls."""
    return _set(connection, subjects, Controls.run, origin)


@command(SUBJECT, click.argument("limit", metavar="NUMBER", type=click.IntRange(1)), LASTING, REASON, within=controls)
def limit(connection: ConnectionOptions, /, subject: str, **origin: Any) -> int:
    """Run up to NUMBER of these jobs at the same time, overriding the limit in the code.

    The limit of a class with a key applies to each key, the limit of a selector or queue to all its jobs together.
    """
    return _set(connection, [subject], Controls.limit, origin)


@command(SUBJECTS, LASTING, REASON, within=controls)
def pause(connection: ConnectionOptions, /, subjects: Sequence[str], **origin: Any) -> int:
    """Start no more of these jobs. Workers hold the jobs that they claim, and claim none from a queue."""
    return _set(connection, subjects, Controls.hold, origin)


@command(SUBJECTS, DELAY, LASTING, REASON, within=controls)
def defer(connection: ConnectionOptions, /, subjects: Sequence[str], **origin: Any) -> int:
    """Reschedule these jobs, repeatedly, instead of running them."""
    return _set(connection, subjects, Controls.defer, origin)


@command(
    SUBJECTS,
    click.option(
        "--delete", is_flag=True, help="Delete the jobs permanently instead of moving them to the quarantine."
    ),
    YES,
    LASTING,
    REASON,
    within=controls,
)
def drop(connection: ConnectionOptions, /, subjects: Sequence[str], *, yes: bool, **origin: Any) -> int:
    """Move these jobs to the quarantine instead of running them.

    You can restore them in the web UI, or with offsider.inspector. With --delete they are deleted permanently, and
    the command asks for confirmation.
    """
    if origin["delete"] and not yes:
        confirm(f"Drop jobs of {', '.join(subjects)}? Workers delete them permanently.")
    return _set(connection, subjects, Controls.drop, origin)


def _set(
    connection: ConnectionOptions, subjects: Sequence[str], act: Callable[..., None], options: Mapping[str, Any]
) -> int:
    """Set a control of each subject with a method of `Controls`, and print it."""
    found = Controls(connection.load())

    def set_one(subject: str) -> None:
        act(found, subject, **options, by=myself())
        control = found.find(subject)
        if control is None:  # another process has ended it
            return
        say(f"{subject}: jobs are now {control.described}")
        known = found.unknown(subject)
        if known:
            # Only a warning: dropping the jobs of a class that no longer exists is a common reason for a control.
            say(f"no live worker declares this class{suggest(subject, known)}", err=True)

    return for_each(subjects, set_one)
