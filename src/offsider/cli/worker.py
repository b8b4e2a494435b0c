"""``offsider worker``: run jobs until a stop is requested."""

from __future__ import annotations

from typing import Any

import click

from offsider.cli.failure import give_up
from offsider.cli.options import WorkerOptions, configured, worker_options
from offsider.cli.parent import Parent
from offsider.cli.parent.worker_process import executed
from offsider.cli.start import uninstall_boot_signals
from offsider.core import gil
from offsider.core.errors import OffsiderError
from offsider.logs.setup import setup_logging


@click.command
@worker_options
def worker(**given: Any) -> int:
    """Run jobs.

    TERM, INT or HUP stops the worker: running jobs have until the timeout to finish, then they are requeued. QUIT stops
    it at once. TSTP quiets it: it claims no new jobs. TTIN logs the stacks of all threads. USR2 checks the code that is
    deployed now, and replaces all processes one by one.
    """
    options = WorkerOptions(**given)
    gil.watch()
    try:
        if options.dry_run or options.list_queues:
            uninstall_boot_signals()  # an interrupted check must not exit with 0
            from offsider.cli.plan import show_plan  # a worker would keep it in memory

            return show_plan(options)
        config = configured(options)
        setup_logging(config.log)
        executed(options)
        return Parent(options, config).run()
    except OffsiderError as error:
        return give_up(str(error), error, verbose=options.verbose)
