"""``offsider limiters``: show and reset limiters, of the extension ``Limiters``."""

from __future__ import annotations

import click

from offsider.cli.command import JSON, SETTINGS, ConnectionOptions, connected, print_json, require
from offsider.cli.text import aligned, grouped, say
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.ext.limiters.limiter_set import LimiterSet, LimiterState
from offsider.ext.limiters.web import limit_of

_MOST = 1000
_COLUMNS = ("LIMITER", "KIND", "LIMIT", "USED", "ALLOWED", "WAITED", "REFUSED")


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connected()
@require("Application that names the server of its limiters. Default: worker.require.")
@JSON
@click.pass_context
def limiters(context: click.Context, connection: ConnectionOptions, *, as_json: bool) -> None:
    """Show up to 1,000 limiters with their use and statistics, the most recently used first."""
    context.obj = connection
    if context.invoked_subcommand is not None:
        return
    states = list(_found(connection))
    if as_json:
        print_json(states)
    else:
        say(*(aligned([_COLUMNS, *map(_row, states)], (3, 4, 5, 6)) if states else ["No limiters."]))


@limiters.command(context_settings=SETTINGS)
@click.argument("kind")
@click.argument("name")
@click.pass_obj
def reset(connection: ConnectionOptions, kind: str, name: str) -> None:
    """Delete the uses and statistics of a limiter, for example: reset window stripe."""
    if not _found(connection).reset(kind, name):
        raise OffsiderError(f"there is no {kind} limiter {name!r}: see offsider limiters")
    say(f"{kind} limiter {name!r}: reset")


def _found(connection: ConnectionOptions) -> LimiterSet:
    return LimiterSet(Installation.of(connection.load_application()), most=_MOST)


def _row(state: LimiterState) -> tuple[str, ...]:
    numbers = map(grouped, (state.used, state.allowed, state.waited, state.overages))
    return state.name, state.kind, limit_of(state), *numbers
