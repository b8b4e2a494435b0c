"""A worker inside another program: a web server in development, a desktop program, a test.

It has two threads by default, does not change signal handlers or the process title, and ignores quiet and stop from
web pages: the surrounding program controls it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from offsider.config.config import Config
from offsider.config.default import default_config
from offsider.core.errors import ConfigurationError
from offsider.jobs.query_queues import serve_selected
from offsider.logs.application import OFF
from offsider.logs.setup import filter_handlers, logger
from offsider.worker.launcher import Launcher

EMBEDDED_CONCURRENCY = 2


class EmbeddedWorker:
    """Runs jobs in threads of this process, between `start` and `stop` or as a context manager.

    ::

        with EmbeddedWorker(config):
            serve()

    Args:
        config: by default the configuration that clients of this process use (the settings file of the current
            folder, the environment, and ``configure_client``), with ``concurrency`` threads. `start` freezes it.
        concurrency: number of jobs that run at once if no ``config`` is given.

    Raises:
        ConfigurationError: no ``config`` is given, and another worker already uses the default configuration.
    """

    def __init__(self, config: Config | None = None, *, concurrency: int = EMBEDDED_CONCURRENCY) -> None:
        if config is None:
            config = default_config()
            if config.frozen:
                msg = "another worker already uses the default configuration; pass a new Config"
                raise ConfigurationError(msg)
            config.worker.concurrency = concurrency
        self.config = config
        self._launcher: Launcher | None = None

    def start(self) -> None:
        """Start running jobs.

        Raises:
            ConfigurationError: it was started before, or its shard selects no queues.
            RedisFailure: the server cannot be reached.
        """
        if self._launcher is not None:
            msg = "this embedded worker was started before; create a new one with a new Config"
            raise ConfigurationError(msg)
        if self.config.log.application_level != OFF:
            filter_handlers()
        for warning in serve_selected(self.config):
            logger.warning("%s", warning)
        self._launcher = Launcher(self.config, embedded=True)
        try:
            self._launcher.start()
        except BaseException:
            self._launcher.stop()  # the program continues, so stop the parts that have started
            raise

    def quiet(self) -> None:
        """Stop claiming jobs; running jobs continue."""
        if self._launcher is not None:
            self._launcher.quiet()

    def stop(self) -> None:
        """Stop within ``worker.timeout_seconds`` plus about 4 s; unfinished jobs are requeued."""
        if self._launcher is not None:
            self._launcher.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
