"""Detects a stuck fetch loop: it makes no progress although threads wait for jobs and the server replies.

This has not been seen in offsider; other job systems had it in production: workers went silent after a reconnect.

1. A fetcher records the time of the last reply. Blocking pops time out, so this time is always recent.
2. No reply for `patience_seconds` while threads wait for jobs is suspicious. From then on the watchdog pings the server
   at each tick; a failed ping is an outage and resets the suspicion.
3. After three successful pings in a row it reports an error, the health endpoint reports unhealthy, and the fetcher
   replaces its connections.
4. If that does not help within `patience_seconds`, the worker exits with a code that makes its parent restart it.
   An embedded worker does not exit; its fetcher replaces its connections again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from offsider.core.errors import OffsiderError, RedisFailure
from offsider.runtime.service import Loop
from offsider.worker.fetch.server_wait import MAX_POP_SECONDS, POP_LIVES

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis
    from offsider.worker.fetch.fetcher import Fetcher

logger = logging.getLogger("offsider")

MIN_PATIENCE_SECONDS = 30.0
CHECKS_PER_PATIENCE = 6
ANSWERS = 3


class FetchLoopStuck(OffsiderError):
    """A capsule fetches no jobs although threads wait for them and the server replies."""


class _Suspicion:
    """State of one suspected fetcher."""

    def __init__(self) -> None:
        self.answers = 0
        self.rebuilt_at: float | None = None


class Watchdog(Loop):
    """The service that watches the fetchers of one worker.

    Args:
        config: its error handlers receive reports.
        redis: for pings; not a fetcher's own pool.
        fetchers: capsule name -> fetcher.
        give_up: stops the worker; None for a worker that must not exit.
        on_beat: called after each check.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        fetchers: Mapping[str, Fetcher],
        give_up: Callable[[str], None] | None,
        on_beat: Callable[[], object] = lambda: None,
    ) -> None:
        self._config = config
        self._redis = redis
        self._fetchers = fetchers
        self._give_up = give_up
        self._on_beat = on_beat
        pop_seconds = min(MAX_POP_SECONDS, config.worker.liveness_seconds * POP_LIVES)
        self.patience_seconds = max(MIN_PATIENCE_SECONDS, 2 * pop_seconds)
        self._suspicions: dict[str, _Suspicion] = {}
        super().__init__("offsider-watchdog", self.tick, config.handle_error)

    def stuck(self) -> tuple[str, ...]:
        """Return the reasons why fetch loops are stuck now, for the health endpoint."""
        return tuple(
            _reason(capsule)
            for capsule, suspicion in self._suspicions.copy().items()
            if suspicion.rebuilt_at is not None
        )

    def tick(self) -> float:
        """Check every fetcher once."""
        now = time.monotonic()
        for capsule, fetcher in self._fetchers.items():
            self._look(capsule, fetcher, now)
        self._on_beat()
        return self.patience_seconds / CHECKS_PER_PATIENCE

    def _look(self, capsule: str, fetcher: Fetcher, now: float) -> None:
        suspicion = self._suspicions.get(capsule)
        if fetcher.idle_count == 0 or now - fetcher.last_activity_at < self.patience_seconds:
            self._clear(capsule, suspicion)
            return
        if suspicion is None:
            suspicion = self._suspicions[capsule] = _Suspicion()
        suspicion.answers = suspicion.answers + 1 if self._answers() else 0
        if suspicion.answers < ANSWERS:
            return
        if suspicion.rebuilt_at is None:
            self._rebuild(capsule, fetcher, suspicion, now)
        elif now - suspicion.rebuilt_at >= self.patience_seconds:
            self._end(capsule, fetcher, suspicion, now)

    def _clear(self, capsule: str, suspicion: _Suspicion | None) -> None:
        if suspicion is None:
            return
        del self._suspicions[capsule]
        if suspicion.rebuilt_at is not None:
            logger.info("the fetch loop of capsule %s has recovered", capsule)

    def _answers(self) -> bool:
        try:
            self._redis.ping()
        except RedisFailure:
            return False
        return True

    def _rebuild(self, capsule: str, fetcher: Fetcher, suspicion: _Suspicion, now: float) -> None:
        suspicion.rebuilt_at = now
        error = FetchLoopStuck(
            f"{_reason(capsule)}: no progress for {now - fetcher.last_activity_at:.0f} s, although the server replies; "
            "replacing its connections"
        )
        self._config.handle_error(error, {"context": "the fetch watchdog"})
        fetcher.rebuild()

    def _end(self, capsule: str, fetcher: Fetcher, suspicion: _Suspicion, now: float) -> None:
        if self._give_up is None:
            self._rebuild(capsule, fetcher, suspicion, now)
            return
        logger.critical("%s, and new connections did not help: this worker exits for a restart", _reason(capsule))
        self._give_up(_reason(capsule))
        suspicion.rebuilt_at = now  # wait for `patience_seconds` before the next attempt


def _reason(capsule: str) -> str:
    return f"the fetch loop of capsule {capsule} is stuck"
