"""A worker inside another program: a web server in development, a desktop program, a test.

It has two threads by default, leaves signals and the process title alone, and ignores quiet and stop from
web pages: the program around it decides.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from offsider.core.errors import ConfigurationError
from offsider.jobs.selected import serve_selected
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.logs import logger
from offsider.worker.launcher import Launcher

EMBEDDED_CONCURRENCY = 2


class EmbeddedWorker:
    """Runs jobs in threads of this process, between `start` and `stop` or as a context manager.

    ::

        with EmbeddedWorker(config):
            serve()

    Args:
        config: default: the very configuration that clients of this process use (the settings file of the current
            folder, the environment, and what ``configure_client`` said), with ``concurrency`` threads. It is frozen
            by `start`.
        concurrency: how many jobs run at a time, when no ``config`` is given.

    Raises:
        ConfigurationError: no ``config`` is given, and that of the process serves a worker already.
    """

    def __init__(self, config: Config | None = None, *, concurrency: int = EMBEDDED_CONCURRENCY) -> None:
        if config is None:
            config = default_config()
            if config.frozen:
                msg = "the configuration of this process serves a worker already; give this one a new Config"
                raise ConfigurationError(msg)
            config.worker.concurrency = concurrency
        self.config = config
        self._launcher: Launcher | None = None

    def start(self) -> None:
        """Begin to run jobs.

        Raises:
            ConfigurationError: it was started before: a worker lives once; or its shard selects nothing.
            RedisFailure: the server cannot be reached.
        """
        if self._launcher is not None:
            msg = "this embedded worker was started before; make a new one (with a new Config)"
            raise ConfigurationError(msg)
        for warning in serve_selected(self.config):
            logger.warning("%s", warning)
        self._launcher = Launcher(self.config, embedded=True)
        try:
            self._launcher.start()
        except BaseException:
            self._launcher.stop()  # the program goes on, so what was started already must not
            raise

    def quiet(self) -> None:
        """Take no further jobs; running ones go on."""
        if self._launcher is not None:
            self._launcher.quiet()

    def stop(self) -> None:
        """Come to an end within ``worker.timeout_seconds`` and a little; unfinished jobs go back."""
        if self._launcher is not None:
            self._launcher.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
