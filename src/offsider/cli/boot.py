"""From a command line to a worker that is ready to start.

1. Read the configuration, set the log up.
2. Start the embedded server, if wanted.
3. Import the application and let it configure the worker.
4. Check the server and what is stored.

A supervisor that preloads does the first three before it forks, and each worker the last.

Whatever goes wrong is raised as an error of our own tree, whose message is all a person needs to read.
"""

from __future__ import annotations

import os
import platform
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.cli.application import folder_beside, load_application
from offsider.core.errors import ConfigurationError
from offsider.jobs.selected import serve_selected
from offsider.wiring.default import set_worker_config
from offsider.wiring.logs import logger, setup_logging
from offsider.worker.boot_checks import check_boot

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.cli.options import WorkerOptions
    from offsider.wiring.config import Config

EMBEDDED_FOLDER = ".offsider"


@dataclass(frozen=True)
class Forked:
    """What a supervisor hands to a worker that it has forked.

    Attributes:
        config: of the application that it has preloaded; None when each worker loads it for itself.
        say_ready: called once the worker runs, with the seconds that its stop may take.
    """

    config: Config | None
    say_ready: Callable[[float], None]


def boot(options: WorkerOptions, resources: ExitStack) -> Config:
    """The configuration of a worker whose application is loaded and whose server was found good.

    Args:
        options: the command line.
        resources: gets what has to be closed after the worker has stopped.

    Raises:
        ConfigurationError: a setting, the application or the server is wrong.
        RedisFailure: the server cannot be reached.
    """
    config = load(options, resources)
    check(config)
    return config


def load(options: WorkerOptions, resources: ExitStack) -> Config:
    """The configuration of a worker whose application is loaded; arguments and errors as of `boot`."""
    config = configured(options)
    setup_logging(config.log)
    if options.embedded:
        config.redis.url = start_embedded_server(resources)
    load_application(config.worker.require, config)
    # Once more: the application may have changed the format or the level.
    setup_logging(config.log)
    config.warnings.extend(serve_selected(config, options.queries(), negate=options.negate))
    return config


def check(config: Config) -> None:
    """Check the server and what is stored, and tell what is odd; errors as of `boot`."""
    _greet(config)
    for warning in (*config.warnings, *check_boot(config)):
        logger.warning("%s", warning)


def configured(options: WorkerOptions) -> Config:
    """The configuration as it is before the application has its say."""
    if os.name == "nt":
        raise ConfigurationError("a worker needs a POSIX system (Linux, macOS); on Windows only pushing is supported")
    config = options.load_config(beside=folder_beside(options.require))
    if not config.worker.require:
        raise ConfigurationError(
            "which jobs? Name the application: offsider worker -r MODULE (a module, a .py file or a folder)"
        )
    if not config.worker.tag:
        config.worker.tag = Path.cwd().name
    # Jobs that push further jobs outside of a worker thread, in threads of their own, shall reach the same server.
    set_worker_config(config)
    return config


def start_embedded_server(resources: ExitStack) -> str:
    """Start, or join, the server of the folder ``.offsider``; answers its URL."""
    from offsider.embedded import EmbeddedServer

    server = resources.enter_context(EmbeddedServer(EMBEDDED_FOLDER))
    logger.info("embedded server: %s", server.url)
    return server.url


def _greet(config: Config) -> None:
    logger.info(
        "offsider %s, Python %s, environment %s, %s%s%s",
        __version__,
        platform.python_version(),
        config.worker.environment,
        f"shard {config.worker.shard}, " if config.worker.shard else "",
        config.redis.redacted_url,
        f", settings of {config.file}" if config.file else "",
    )
