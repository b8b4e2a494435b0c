"""``offsider locks``: release locks of unique jobs."""

from __future__ import annotations

import click

from offsider.cli.command import ONE_SERVER, SETTINGS, ConnectionOptions, connected
from offsider.cli.text import say
from offsider.core.errors import OffsiderError
from offsider.ext.unique import Locks


@click.group(context_settings=SETTINGS)
@connected(ONE_SERVER)
@click.pass_context
def locks(context: click.Context, connection: ConnectionOptions) -> None:
    """Release locks of unique jobs. The doctor finds locks whose job no longer exists."""
    context.obj = connection


@locks.command(context_settings=SETTINGS)
@click.argument("jid")
@click.pass_obj
def release(connection: ConnectionOptions, jid: str) -> None:
    """Release the lock of a job, so that the same job can be pushed again while this one may still exist."""
    released = [lock for lock in Locks(connection.installation()) if lock.jid == jid and lock.release()]
    if not released:
        raise OffsiderError(f"job {jid} holds no lock: the tab Locks of the web UI lists all locks")
    for lock in released:
        say(f"{lock.job_name} {jid}: lock released")
