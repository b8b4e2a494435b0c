"""Runs one worker from its boot to the end of its process."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from offsider.cli.application import ITS_OWN, BrokenApplication
from offsider.cli.boot import check, load
from offsider.cli.failure import end_process, explain
from offsider.cli.main_loop import MainLoop
from offsider.cli.signals import SignalQueue, StoppedEarly, send_to_self
from offsider.core.errors import OffsiderError

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config
    from offsider.worker.alive.parent_link import ParentLink

# Prefetched jobs outlive Python's default of 700 allocations, so each collection would walk them, and promote them to
# the generations that cost more: at 1 ms of round trip that takes a quarter of the rate of short jobs.
YOUNG_OBJECTS = 10_000
_DEFAULT_THRESHOLD = gc.get_threshold()


def run_worker(options: WorkerOptions, parent: ParentLink, preloaded: Config | None = None) -> int:
    """Boot, run, stop. Returns only if the worker was stopped before it ran; else it ends the process itself.

    Args:
        options: the command line.
        parent: the link to the parent of this process.
        preloaded: the configuration of the application that the fork server has loaded; None to load it.

    Raises:
        OffsiderError: the worker cannot start; the message is complete for a user.
    """
    signals = SignalQueue()
    try:
        running = _start(options, signals, parent, preloaded)
        code = running.until_stopped()
    except BaseException as error:
        signals.close()
        if isinstance(error, StoppedEarly):
            return 0
        raise
    return end_process(code, within_seconds=running.seconds_left())


def _start(options: WorkerOptions, signals: SignalQueue, parent: ParentLink, preloaded: Config | None) -> MainLoop:
    """Boot, and start the launcher."""
    # Before the application is imported: from now on a stop ends what the boot has started.
    signals.booting = True
    signals.install()
    config = preloaded or load(options)
    if config.worker.processes:
        config.events.emit("fork", once=True)
    check(config)
    # Again, because the application may have replaced the handlers.
    signals.install()
    signals.booting = False

    _collect_less_often()

    # Imported here: it imports the whole engine, and errors of the application must be reported without that delay.
    from offsider.worker.launcher import Launcher

    launcher = Launcher(config, parent=parent, on_signal=send_to_self)
    try:
        launcher.prepare()
        # A server that does not answer delays the registration, and must not delay a stop.
        signals.booting = True
        launcher.register()
        signals.booting = False
        launcher.start()
    except OffsiderError:
        raise
    except ITS_OWN as error:
        # A handler of the event startup may raise any error, which must end the start.
        raise BrokenApplication(explain("the worker cannot start", error)) from error
    # And again: a handler of the event startup may have replaced them, too.
    signals.install()
    parent.say_ready(config.worker.timeout_seconds)
    return MainLoop(launcher, signals, parent)


def _collect_less_often() -> None:
    """Let the garbage collector run after more allocations, unless the application has set its own threshold."""
    if gc.get_threshold() == _DEFAULT_THRESHOLD:
        gc.set_threshold(YOUNG_OBJECTS, *_DEFAULT_THRESHOLD[1:])
