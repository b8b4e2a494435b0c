"""Prepare a worker from its command line.

1. Read the configuration and set up logging.
2. Import the application and let it configure the worker.
3. Check the server and the stored data.

A fork server does steps 1 and 2 before it forks; each worker does step 3.

Every failure is raised as an OffsiderError whose message is complete for a user.
"""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.cli.application import load_application
from offsider.cli.options import configured
from offsider.config.application import application
from offsider.core import gil
from offsider.jobs.query_queues import serve_selected
from offsider.jobs.registry import all_jobs
from offsider.logs.setup import filter_handlers, logger, setup_logging, show_application_log
from offsider.worker.boot_checks import check_boot
from offsider.worker.green_threads import refuse_green_threads

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config
    from offsider.runtime.middleware import Middleware, Push


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
