"""The keeper of a supervisor: one for all workers, restarted alone if it exits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.cli.health import HealthServer
from offsider.cli.keeper import fork_keeper, warn_of_no_keeper
from offsider.cli.supervisor.children import Backoff, described
from offsider.core.errors import ConfigurationError
from offsider.logs.setup import logger
from offsider.worker.alive.keeper.channel import Channel
from offsider.worker.alive.keeper.messages import Orders, encode

if TYPE_CHECKING:
    from offsider.config.config import Config

# Time for the keeper of the previous program to release the address of the health endpoint.
HEALTH_SECONDS = 3.0


class KeeperChild:
    """Starts the keeper, and starts another one if it exits; does nothing if the keeper is disabled.

    Args:
        workers: number of workers.
        let_go: closes, in the keeper, the resources that only the supervisor uses.

    Attributes:
        channel: the workers' channel to the keeper; None if it is disabled.
        pid: 0 while it does not run.
    """

    def __init__(self, config: Config, workers: int, let_go: Callable[[], None]) -> None:
        self._config = config
        self._workers = workers
        self._let_go = let_go
        self._health: HealthServer | None = None
        self._backoff = Backoff()
        self._born_at = 0.0
        self._start_at = 0.0
        self.channel = Channel() if config.worker.keeper else None
        self.pid = 0

    def use(self, config: Config) -> None:
        """Start the next keeper with this configuration."""
        self._config = config

    def start(self, *, succeeds_another: bool) -> None:
        """Bind the health port, and start the keeper.

        The supervisor binds the port, so that each new keeper can serve it; the supervisor has no thread for it.

        Args:
            succeeds_another: the keeper of the previous program may still have the port.

        Raises:
            ConfigurationError: the port cannot be bound, or there is no keeper that could serve it.
        """
        if self._config.worker.health:
            if self.channel is None:
                raise ConfigurationError("--health with --processes requires the keeper: remove --no-keeper")
            self._health = self._bind_health(succeeds_another=succeeds_another)
        if self.channel is None:
            warn_of_no_keeper(self._config)
        self._fork()

    def _bind_health(self, *, succeeds_another: bool) -> HealthServer | None:
        give_up_at = time.monotonic() + HEALTH_SECONDS
        while True:
            try:
                return HealthServer(self._config.worker.health, shard=self._config.worker.shard)
            except ConfigurationError as error:
                if not succeeds_another:
                    raise
                if time.monotonic() >= give_up_at:  # the old keeper still has the port: continue without the endpoint
                    logger.error("%s", error)
                    return None
                time.sleep(0.05)

    def close_health(self) -> None:
        """In a worker: close the health port, which the keeper serves even if the worker outlives the supervisor."""
        if self._health is not None:
            self._health.close()

    def due(self) -> float | None:
        """Return the time of the next start, by the monotonic clock; None while the keeper runs."""
        return self._start_at if self.channel is not None and not self.pid else None

    def tend(self, now: float) -> None:
        """Start the keeper if it is due."""
        if not self.pid and now >= self._start_at:
            self._fork()

    def exited(self, status: int, *, restart: bool) -> None:
        """Note that the keeper has exited; log it if it will be restarted."""
        now = time.monotonic()
        self.pid = 0
        pause_seconds = self._backoff.pause_seconds(now - self._born_at)
        self._start_at = now + pause_seconds
        if restart:
            logger.error("the keeper %s; starting another one in %g s", described(status), pause_seconds)

    def order(self, *, no_more: bool = False) -> None:
        """Send the number of workers, and whether more workers will start."""
        if self.channel is not None:
            self.channel.send(encode(Orders(self._workers, no_more)))

    def _fork(self) -> None:
        if self.channel is not None:
            self._born_at = time.monotonic()
            self.pid = fork_keeper(self._config, self.channel, os.getpid(), self._health, self._let_go)
            self.order()
