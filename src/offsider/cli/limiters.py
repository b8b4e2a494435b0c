"""``offsider limiters``: show and reset limiters, of the extension ``Limiters``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeAlias

import click

from offsider.cli.application import load_application
from offsider.cli.command import SETTINGS, connection_options, load_server
from offsider.cli.failure import give_up
from offsider.cli.text import aligned, grouped, plain
from offsider.core.errors import OffsiderError
from offsider.ext.limiters.limiter_set import LimiterSet, LimiterState
from offsider.ext.limiters.web import limit_of

#: The configuration file, the environment, and the modules of the application.
Options: TypeAlias = tuple[str | None, str | None, tuple[str, ...]]

_MOST = 1000
_COLUMNS = ("LIMITER", "KIND", "LIMIT", "USED", "ALLOWED", "WAITED", "REFUSED")


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@click.option(
    "-r",
    "--require",
    metavar="MODULE",
    multiple=True,
    help="Application that names the server of its limiters. Default: worker.require.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def limiters(
    context: click.Context, config: str | None, environment: str | None, require: tuple[str, ...], *, as_json: bool
) -> None:
    """Show up to 1,000 limiters with their use and statistics, the most recently used first."""
    context.obj = (config, environment, require)
    if context.invoked_subcommand is not None:
        return

    def show(found: LimiterSet) -> str:
        states = list(found)
        if as_json:
            return json.dumps([asdict(state) for state in states], indent=2)
        return "\n".join(aligned([_COLUMNS, *map(_row, states)], numbers=(3, 4, 5, 6))) if states else "No limiters."

    sys.exit(_run(context.obj, show))


@limiters.command(context_settings=SETTINGS)
@click.argument("kind")
@click.argument("name")
@click.pass_obj
def reset(options: Options, kind: str, name: str) -> None:
    """Forget the uses and statistics of a limiter, for example: reset window stripe."""

    def act(found: LimiterSet) -> str:
        if not found.reset(kind, name):
            raise OffsiderError(f"there is no {plain(kind)} limiter {plain(name)!r}: see offsider limiters")
        return f"{plain(kind)} limiter {plain(name)!r}: reset"

    sys.exit(_run(options, act))


def _run(options: Options, act: Callable[[LimiterSet], str]) -> int:
    config, environment, require = options
    try:
        here = load_server(config, environment)
        load_application(require or here.config.worker.require, here.config)
        click.echo(act(LimiterSet(here, most=_MOST)))
    except OffsiderError as error:
        return give_up(str(error))
    return 0


def _row(state: LimiterState) -> tuple[str, ...]:
    numbers = map(grouped, (state.used, state.allowed, state.waited, state.overages))
    return plain(state.name), plain(state.kind), limit_of(state), *numbers
