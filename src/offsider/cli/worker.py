"""``offsider worker``: run jobs until a stop is requested."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from offsider.cli import boot_signals
from offsider.cli.failure import give_up
from offsider.cli.keeper import start_keeper
from offsider.cli.options import WorkerOptions, configured, worker_options
from offsider.core import gil
from offsider.core.errors import OffsiderError
from offsider.logs.setup import setup_logging

if TYPE_CHECKING:
    from offsider.cli.health import HealthServer
    from offsider.config.config import Config


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
    it at once. TSTP quiets it: it claims no new jobs. TTIN logs the stacks of all threads. With --processes, USR2
    replaces all processes one by one.
    """
    return run(WorkerOptions(**given), words)


def run(options: WorkerOptions, words: Sequence[str] = ()) -> int:
    """Run a worker, or a supervisor or reloader of workers, and return the exit code."""
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
        # Without a keeper only a worker by itself can serve the health endpoint.
        reaps = os.getpid() == 1 and (config.worker.keeper or not config.worker.health)
        if config.worker.processes or reaps:
            from offsider.cli.run_worker import run_worker
            from offsider.cli.supervisor import Supervisor  # a worker without one would keep it in memory

            return Supervisor(options, config, run_worker).run()
        health = _health_server(config)
        keeper = start_keeper(config, health)
        # Only now: the keeper must not hold what it never uses.
        from offsider.cli.run_worker import run_worker

        return run_worker(options, keeper, health=health if keeper is None else None)
    except OffsiderError as error:
        return give_up(str(error), error, verbose=options.verbose)


def _health_server(config: Config) -> HealthServer | None:
    if not config.worker.health:
        return None
    from offsider.cli.health import HealthServer  # most workers have no health endpoint

    return HealthServer(config.worker.health, shard=config.worker.shard)
