"""``offsider worker``: run jobs until a stop is requested."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.application import ITS_OWN, BrokenApplication, load_application
from offsider.cli.boot import Forked, check, configured, load
from offsider.cli.command import MOST_LETTERS, SETTINGS
from offsider.cli.failure import end_process, explain, give_up
from offsider.cli.keeper import start_keeper
from offsider.cli.main_loop import MainLoop
from offsider.cli.options import WorkerOptions, worker_options
from offsider.cli.signals import SignalQueue, StoppedEarly, send_to_self
from offsider.cli.text import plain
from offsider.config.capsule import Capsule
from offsider.core import gil
from offsider.core.errors import OffsiderError
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.jobs.query_queues import serve_selected
from offsider.logs.setup import setup_logging
from offsider.worker.alive.keeper.link import KeeperProcess

if TYPE_CHECKING:
    from offsider.cli.health import HealthServer
    from offsider.config.config import Config

# Prefetched jobs outlive Python's default of 700 allocations, so each collection would walk them, and promote them to
# the generations that cost more: at 1 ms of round trip that takes a quarter of the rate of short jobs.
YOUNG_OBJECTS = 10_000
_DEFAULT_THRESHOLD = gc.get_threshold()


class _Worker(click.Command):
    """Stores the arguments as given, for the reloader."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Worker, context_settings=SETTINGS)
@worker_options
@click.pass_obj
def worker(words: tuple[str, ...], /, **given: Any) -> int:
    """Run jobs.

    TERM or INT stops the worker: running jobs have until the timeout to finish, then they are requeued. TSTP quiets
    it: it claims no new jobs. TTIN logs the stacks of all threads. With --processes, USR2 replaces all processes one
    by one.
    """
    return run(WorkerOptions(**given), words)


def run(options: WorkerOptions, words: Sequence[str] = ()) -> int:
    """Run a worker, or a supervisor or reloader of workers, and return the exit code."""
    gil.watch()
    try:
        if options.dry_run or options.list_queues:
            return show_plan(options)
        config = configured(options)
        if config.worker.reload:
            from offsider.cli.reload import Reloader  # a worker would keep it in memory

            return Reloader(options, words).run()
        setup_logging(config.log)
        if config.worker.processes or config.worker.groups:
            from offsider.cli.supervisor import Supervisor  # a worker without one would keep it in memory

            return Supervisor(options, config, run_worker).run()
        health = _health_server(config)
        keeper = start_keeper(config, health)
        return run_worker(options, keeper, health=health if keeper is None else None)
    except OffsiderError as error:
        return give_up(str(error), error, verbose=options.verbose)


def _health_server(config: Config) -> HealthServer | None:
    if not config.worker.health:
        return None
    from offsider.cli.health import HealthServer  # most workers have no health endpoint

    return HealthServer(config.worker.health, shard=config.worker.shard)


def run_worker(
    options: WorkerOptions,
    keeper: KeeperProcess | None = None,
    forked: Forked | None = None,
    *,
    health: HealthServer | None = None,
) -> int:
    """Boot, run, stop. Returns only if the worker was stopped before it ran; else it ends the process itself.

    Args:
        options: the command line.
        keeper: the keeper that was forked before.
        forked: data from the supervisor that forked this process.
        health: health endpoint that the worker itself serves if there is no keeper.

    Raises:
        OffsiderError: the worker cannot start; the message is complete for a user.
    """
    signals = SignalQueue()
    try:
        with ExitStack() as resources:
            if health is not None:
                health.serve()
            running = _start(options, signals, resources, keeper, forked)
            if health is not None:
                health.serve(running.health, running.totals)
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
    keeper: KeeperProcess | None,
    forked: Forked | None,
) -> MainLoop:
    """Boot, and start the launcher."""
    # Before the application is imported: as PID 1 of a container, a process without a handler ignores TERM.
    signals.booting = True
    signals.install()
    config = forked.config if forked is not None and forked.config is not None else load(options, resources)
    if forked is not None:
        config.events.emit("fork", once=True)
    check(config)
    # Again, because the application may have replaced the handlers.
    signals.install()
    signals.booting = False

    _collect_less_often()

    # Imported here: it imports the whole engine, and errors of the application must be reported without that delay.
    from offsider.worker.launcher import Launcher

    launcher = Launcher(config, keeper=keeper, on_signal=send_to_self)
    try:
        launcher.start()
    except OffsiderError:
        raise
    except ITS_OWN as error:
        # A handler of the event startup may raise any error, which must end the start.
        raise BrokenApplication(explain("the worker cannot start", error)) from error
    if forked is not None:
        forked.say_ready(config.worker.timeout_seconds)
    return MainLoop(launcher, signals, supervised=forked is not None)


def _collect_less_often() -> None:
    """Let the garbage collector run after more allocations, unless the application has set its own threshold."""
    if gc.get_threshold() == _DEFAULT_THRESHOLD:
        gc.set_threshold(YOUNG_OBJECTS, *_DEFAULT_THRESHOLD[1:])


# --------------------------------------------------------------- --dry-run and --list-queues


def show_plan(options: WorkerOptions) -> int:
    """Print the plan or the queue names, and return the exit code.

    Raises:
        ConfigurationError: the worker could not start; checks that need the server are skipped.
    """
    config = configured(options)
    load_application(config.worker.require, config)
    registry.check_all(config)
    config.check_rules()
    config.warnings.extend(serve_selected(config, options.queries(), negate=options.negate))
    lines = queue_names(config) if options.list_queues else [*plan(config)]
    for line in lines:
        click.echo(plain(line, MOST_LETTERS))
    for warning in config.warnings:
        click.echo(f"offsider: {plain(warning, MOST_LETTERS)}", err=True)
    return 0


def plan(config: Config) -> Iterator[str]:
    """Yield the lines of the plan; queues in the syntax of ``-q``."""
    if config.worker.shard:
        yield f"shard: {config.worker.shard}"
    yield f"server: {config.server}, {config.redis.redacted_url}"
    yield f"environment: {config.worker.environment}{f', settings of {config.file}' if config.file else ''}"
    groups = config.worker.groups
    number = config.worker.processes or len(groups)
    yield f"processes: {f'{number}, forked by a supervisor' if number else '1, without a supervisor'}"
    if not groups:
        yield from _capsules(config)
    for index in range(number if groups else 0):
        yield f"process {index + 1}:"
        config.worker.queues = groups[index % len(groups)].split()
        yield from (f"  {line}" for line in _capsules(config))


def queue_names(config: Config) -> list[str]:
    """Return the unique queue names of all capsules and processes; ``*`` means every queue."""
    groups = config.worker.groups
    names: dict[str, None] = {}
    served: Sequence[Sequence[str]] = [group.split() for group in groups] or [config.worker.queues]
    for queues in served:
        config.worker.queues = queues
        names |= dict.fromkeys(spec.name for capsule in config.capsules.values() for spec in capsule.specs)
    return list(names)


def _capsules(config: Config) -> Iterator[str]:
    for capsule in config.capsules.values():
        yield f"capsule {capsule.name}: {counted(capsule.concurrency, 'thread')}, {_order(capsule)}"
        yield from (f"  {spec}" for spec in capsule.specs)


def _order(capsule: Capsule) -> str:
    return {"strict": "strict order", "weighted": "by weight", "random": "in random order"}[capsule.mode]
