"""A worker inside another program: a web server in development, a desktop program, a test.

It has two threads by default, does not change signal handlers or the process title, and ignores quiet and stop from
web pages: the surrounding program controls it.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from offsider.config.config import Config
from offsider.config.default import default_config
from offsider.core.errors import ConfigurationError
from offsider.jobs.routes import serve_selected
from offsider.logs.setup import filter_handlers, logger
from offsider.worker.boot_checks import refuse_green_threads
from offsider.worker.launcher import Launcher

EMBEDDED_CONCURRENCY = 2
RUNS_ALREADY = "another worker of this process runs with this configuration: stop it first, or pass another Config"


class EmbeddedWorker:
    """Runs jobs in threads of this process, between `start` and `stop` or as a context manager.

    ::

        with EmbeddedWorker(config):
            serve()

    Args:
        config: by default the configuration that clients of this process use (the settings file of the current
            folder, the environment, and ``configure_client``), with ``concurrency`` threads. It is frozen while the
            worker runs.
        concurrency: number of jobs that run at once if no ``config`` is given.

    Raises:
        ConfigurationError: no ``config`` is given, and another worker runs with the default configuration.
    """

    def __init__(self, config: Config | None = None, *, concurrency: int = EMBEDDED_CONCURRENCY) -> None:
        if config is None:
            config = default_config()
            _refuse_frozen(config)
            config.worker.concurrency = concurrency
        self.config = config
        self._launcher: Launcher | None = None
        self._ending = ExitStack()

    def start(self) -> Self:
        """Start running jobs; also again, after `stop`.

        Raises:
            ConfigurationError: another worker runs with its configuration, its shard selects no queues, or gevent or
                eventlet has patched the process.
            RedisFailure: the server cannot be reached.
        """
        refuse_green_threads()
        in_use = self.config.shared.get(_InUse, _InUse).lock
        with ExitStack() as ending:  # the program continues after an error, so stop the parts that have started
            if not in_use.acquire(blocking=False):
                raise ConfigurationError(RUNS_ALREADY)
            ending.callback(in_use.release)
            _refuse_frozen(self.config)
            ending.enter_context(self._adjusted())
            ending.callback(self.config.thaw)
            filter_handlers()
            for warning in serve_selected(self.config):
                logger.warning("%s", warning)
            self._launcher = Launcher(self.config, embedded=True)
            ending.callback(self._launcher.stop)
            self._launcher.start()
            self._ending = ending.pop_all()
        return self

    @contextmanager
    def _adjusted(self) -> Generator[None]:
        """Restore the settings that a start changes."""
        queues = self.config.worker.queues
        try:
            yield
        finally:
            self.config.worker.queues = queues

    def quiet(self) -> None:
        """Stop claiming jobs; running jobs continue."""
        if self._launcher is not None:
            self._launcher.quiet()

    def stop(self) -> None:
        """Stop within ``worker.timeout_seconds`` plus about 4 s; unfinished jobs are requeued."""
        self._ending.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _InUse:
    """Locked while a worker runs with a configuration."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _refuse_frozen(config: Config) -> None:
    if config.frozen:
        raise ConfigurationError(RUNS_ALREADY)
