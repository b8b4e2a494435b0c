"""``offsider worker``: runs jobs until it is told to stop."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.application import ITS_OWN, BrokenApplication
from offsider.cli.boot import Forked, check, configured, load
from offsider.cli.ending import end_process
from offsider.cli.failure import explain, give_up
from offsider.cli.keeper import start_keeper
from offsider.cli.options import WorkerOptions, worker_options
from offsider.cli.running import Running
from offsider.cli.signals import SignalQueue, StoppedEarly, send_to_self
from offsider.core.errors import OffsiderError
from offsider.wiring.logs import setup_logging
from offsider.worker.keeper.link import KeeperLink

if TYPE_CHECKING:
    from offsider.cli.health import HealthServer
    from offsider.wiring.config import Config


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@worker_options
def worker(**given: Any) -> None:
    """Run jobs.

    TERM or INT stops: running jobs get some time, what is left goes back to its queue. TSTP takes no further jobs.
    TTIN writes what every thread is doing to the log. With --processes USR2 replaces all processes one by one.
    """
    sys.exit(run(WorkerOptions(**given)))


def run(options: WorkerOptions) -> int:
    """Run a worker, or a process that looks after some; answers the exit code."""
    try:
        if options.dry_run or options.list_queues:
            from offsider.cli import dry_run  # imported here: workers that run need none of it

            return dry_run.run(options)
        config = configured(options)
        if config.worker.reload:
            from offsider.cli.reload import Reloader  # imported here: for development only

            return Reloader(options).run()
        setup_logging(config.log)
        if config.worker.processes or config.worker.groups:
            from offsider.cli.supervisor.supervisor import Supervisor  # imported here: one process needs none of it

            return Supervisor(options, config, run_worker).run()
        health = _health_server(config)
        keeper = start_keeper(config, health)
        return run_worker(options, keeper, health=health if keeper is None else None)
    except OffsiderError as error:
        return give_up(str(error), error, verbose=options.verbose)


def _health_server(config: Config) -> HealthServer | None:
    if not config.worker.health:
        return None
    from offsider.cli.health import HealthServer  # imported here: most workers have none

    return HealthServer(config.worker.health, shard=config.worker.shard)


def run_worker(
    options: WorkerOptions,
    keeper: KeeperLink | None = None,
    forked: Forked | None = None,
    *,
    health: HealthServer | None = None,
) -> int:
    """Boot, run, stop. Returns only when the worker was stopped before it ran; else it ends the process itself.

    Args:
        options: the command line.
        keeper: forked before; told who the worker is.
        forked: from the supervisor that has forked this process.
        health: served by the worker itself, for want of a keeper.

    Raises:
        OffsiderError: it cannot start; the message is for the person at the terminal.
    """
    signals = SignalQueue()
    try:
        with ExitStack() as resources:
            if health is not None:
                health.serve()
            running = _start(options, signals, resources, keeper, forked)
            if health is not None:
                health.health, health.sums = running.health, running.sums
            code = running.until_stopped()
    except BaseException as error:
        signals.close()
        if isinstance(error, StoppedEarly):
            return 0
        raise
    return end_process(code, within_seconds=running.seconds_left())


def _start(
    options: WorkerOptions,
    signals: SignalQueue,
    resources: ExitStack,
    keeper: KeeperLink | None,
    forked: Forked | None,
) -> Running:
    """Everything up to a running launcher."""
    # Before the application is imported: as PID 1 of a container, a process without a handler ignores TERM.
    signals.booting = True
    signals.install()
    config = forked.config if forked is not None and forked.config is not None else load(options, resources)
    if forked is not None:
        config.events.emit("fork", once=True)
    check(config)
    # Once more, for the case that the application has set handlers of its own.
    signals.install()
    signals.booting = False

    # Imported here: it brings the whole engine, and a broken application shall be told about at once.
    from offsider.worker.launcher import Launcher

    launcher = Launcher(config, keeper=keeper)
    launcher.on_signal = send_to_self
    try:
        launcher.start()
    except OffsiderError:
        raise
    except ITS_OWN as error:
        # A handler of the event startup may raise anything, and shall end the start.
        raise BrokenApplication(explain("the worker cannot start", error)) from error
    if forked is not None:
        forked.say_ready(config.worker.timeout_seconds)
    return Running(launcher, signals, supervised=forked is not None)
