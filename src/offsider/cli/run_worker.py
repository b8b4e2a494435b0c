"""Runs one worker from its boot to the end of its process."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import TYPE_CHECKING

from offsider.cli.application import ITS_OWN, BrokenApplication
from offsider.cli.boot import Forked, check, load
from offsider.cli.failure import end_process, explain
from offsider.cli.main_loop import MainLoop
from offsider.cli.signals import SignalQueue, StoppedEarly, send_to_self
from offsider.core.errors import OffsiderError

if TYPE_CHECKING:
    from offsider.cli.health import HealthServer
    from offsider.cli.options import WorkerOptions
    from offsider.worker.alive.keeper.link import KeeperProcess

# Prefetched jobs outlive Python's default of 700 allocations, so each collection would walk them, and promote them to
# the generations that cost more: at 1 ms of round trip that takes a quarter of the rate of short jobs.
YOUNG_OBJECTS = 10_000
_DEFAULT_THRESHOLD = gc.get_threshold()


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
    # Before the application is imported: from now on a stop ends what the boot has started.
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
    # And again: a handler of the event startup may have replaced them, too.
    signals.install()
    if forked is not None:
        forked.say_ready(config.worker.timeout_seconds)
    return MainLoop(launcher, signals, supervised=forked is not None)


def _collect_less_often() -> None:
    """Let the garbage collector run after more allocations, unless the application has set its own threshold."""
    if gc.get_threshold() == _DEFAULT_THRESHOLD:
        gc.set_threshold(YOUNG_OBJECTS, *_DEFAULT_THRESHOLD[1:])
