"""Runs one worker from its boot to the end of its process.

1. Read the configuration and set up logging.
2. Import the application and let it configure the worker. With several workers, the fork server does these two steps.
3. Check the server and the stored data, and start the launcher.
4. Wait for a stop (`main_loop`), and end the process.

Every failure is raised as an OffsiderError whose message is complete for a user.
"""

from __future__ import annotations

import gc
import platform
import sys
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.cli.application import ITS_OWN, BrokenApplication, load_application
from offsider.cli.failure import end_process, explain
from offsider.cli.isolated import children_for
from offsider.cli.main_loop import MainLoop
from offsider.cli.options import configured
from offsider.cli.signals import SignalQueue, StoppedEarly, send_to_self
from offsider.config.application import application
from offsider.core import gil
from offsider.core.errors import OffsiderError
from offsider.jobs.registry import all_jobs
from offsider.jobs.routes import serve_selected
from offsider.logs.setup import filter_handlers, logger, setup_logging, show_application_log
from offsider.runtime.forks import check_descriptors
from offsider.worker.boot_checks import check_boot, refuse_green_threads
from offsider.worker.launcher import Launcher

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config
    from offsider.runtime.middleware import Middleware, Push
    from offsider.worker.alive.parent_link import ParentLink

# Prefetched jobs outlive Python's default of 700 allocations, so each collection would walk them, and promote them to
# the generations that cost more: at 1 ms of round trip that takes a quarter of the rate of short jobs.
YOUNG_OBJECTS = 10_000
_DEFAULT_THRESHOLD = gc.get_threshold()


def load(options: WorkerOptions) -> Config:
    """Load the application and return the configuration.

    Raises:
        ConfigurationError: a setting or the application is unusable.
    """
    config = configured(options)
    setup_logging(config.log)
    before = set(sys.modules)
    config.client_middleware.prepend(_warn_of_push)
    load_application(config.worker.require, config)
    refuse_green_threads()
    config.client_middleware.remove(_warn_of_push)
    if "offsider.flask" in sys.modules.keys() - before and application() is None:
        config.warnings.append(
            "the jobs of this application use offsider.flask, but no Flask app was created here: start the worker with "
            "flask --app MODULE offsider worker"
        )
    if not all_jobs():
        config.warnings.append(
            "the application declares no jobs: name the modules of your jobs with -r, or import them there"
        )
    # Again, because the application may have changed the format or the level.
    handler = setup_logging(config.log)
    if handler is not None:
        show_application_log(handler)
    filter_handlers()
    config.warnings.extend(serve_selected(config, options.queries(), negate=options.negate))
    return config


def _warn_of_push(push: Push) -> Middleware:
    """Client middleware while the application is loaded: such a push is repeated at each start of a process."""
    logger.warning(
        "%s was pushed while the application was loaded, so each start of a process pushes it again: "
        'move the push into a function, or below `if __name__ == "__main__":`',
        push.payload["class"],
    )
    yield


def check(config: Config) -> None:
    """Check the server and the stored data, and log warnings.

    Raises:
        ConfigurationError: the server is unusable.
        RedisFailure: the server cannot be reached.
    """
    _greet(config)
    for warning in (*config.warnings, *check_boot(config)):
        logger.warning("%s", warning)


def _greet(config: Config) -> None:
    state = gil.state()
    logger.info(
        "offsider %s, Python %s, %senvironment %s, %s%s%s",
        __version__,
        platform.python_version(),
        f"free-threaded, {state}, " if state else "",
        config.worker.environment,
        f"shard {config.worker.shard}, " if config.worker.shard else "",
        config.redis.redacted_url,
        f", settings of {config.file}" if config.file else "",
    )


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
        check_descriptors()  # closing them ends the wait for signals, which raises
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
    children = children_for(config, signals.close)
    if config.worker.processes:
        config.events.emit("fork", once=True)
    check(config)
    # Again, because the application may have replaced the handlers.
    signals.install()
    signals.booting = False

    if gc.get_threshold() == _DEFAULT_THRESHOLD:  # the application has not set its own
        gc.set_threshold(YOUNG_OBJECTS, *_DEFAULT_THRESHOLD[1:])
    launcher = Launcher(config, parent=parent, on_signal=send_to_self, children=children)
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
