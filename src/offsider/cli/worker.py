"""``offsider worker``: run jobs until a stop is requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from offsider.cli import boot_signals
from offsider.cli.failure import give_up
from offsider.cli.options import WorkerOptions, configured, worker_options
from offsider.cli.parent import Parent
from offsider.cli.parent.worker_process import executed
from offsider.core import gil
from offsider.core.errors import OffsiderError
from offsider.logs.setup import setup_logging


class _Worker(click.Command):
    """Stores the arguments as given, for the reloader."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Worker)
@worker_options
@click.pass_obj
def worker(words: tuple[str, ...], /, **given: Any) -> int:
    """Run jobs.

    TERM, INT or HUP stops the worker: running jobs have until the timeout to finish, then they are requeued. QUIT stops
    it at once. TSTP quiets it: it claims no new jobs. TTIN logs the stacks of all threads. USR2 checks the code that is
    deployed now, and replaces all processes one by one.
    """
    return run(WorkerOptions(**given), words)


def run(options: WorkerOptions, words: Sequence[str] = ()) -> int:
    """Run workers below a parent, or a reloader, and return the exit code."""
    gil.watch()
    try:
        if options.dry_run or options.list_queues:
            boot_signals.uninstall()  # an interrupted check must not exit with 0
            from offsider.cli.plan import show_plan  # a worker would keep it in memory

            return show_plan(options)
        config = configured(options)
        if config.worker.reload:
            from offsider.cli.reload import Reloader  # a worker would keep it in memory

            return Reloader(options, words).run()
        setup_logging(config.log)
        executed(options)
        return Parent(options, config).run()
    except OffsiderError as error:
        return give_up(str(error), error, verbose=options.verbose)
