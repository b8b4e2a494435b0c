"""Notices a fetch loop that has stopped turning, while threads wait for jobs and the server answers.

No cause of it is known; others have found theirs in production, as workers that went silent after a reconnect.

1. A fetcher shows when it last heard of the server. Parks end by themselves, so that is never long ago.
2. Nothing for `patience_seconds` while threads are hungry is a suspicion. From then on the server is asked each
   tick whether it is there: an outage is no fault of the loop, and counts as a fresh start.
3. Three answers in a row: an error is reported, health turns red, and the fetcher gives up its connections.
4. Still nothing after as long again: the worker stops with an exit code that makes its supervisor start another.
   A worker inside another program is not stopped; its fetcher gives up its connections again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from offsider.core.errors import OffsiderError, RedisFailure
from offsider.wiring.service import Loop

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

LEAST_PATIENCE_SECONDS = 30.0
#: A park lasts this much of a liveness life at most, and 25 s at most; see `waiting`.
PARK_LIVES = 0.4
MOST_PARK_SECONDS = 25.0
LOOKS_PER_PATIENCE = 6
ANSWERS = 3


class FetchLoopStuck(OffsiderError):
    """A capsule takes no jobs though threads wait for some and the server answers."""


@runtime_checkable
class Watched(Protocol):
    """What a fetcher shows to be watched."""

    @property
    def last_look(self) -> float:
        """When it last heard of the server, in monotonic seconds."""
        ...

    @property
    def hungry(self) -> int:
        """How many threads wait for a job."""
        ...

    def rebuild(self) -> None:
        """Give up all connections, and wake whoever leads. Called by another thread."""
        ...


class _Suspicion:
    """What is held against one fetcher."""

    def __init__(self) -> None:
        self.answers = 0
        self.rebuilt_at: float | None = None


class Watchdog:
    """The service that watches the fetchers of one worker.

    Args:
        config: whose error handlers are told.
        redis: to ask whether the server is there; not a fetcher's own pool.
        fetchers: by the name of their capsules.
        give_up: stops the worker; None for one that must not end.
    """

    def __init__(
        self, config: Config, redis: Redis, fetchers: Mapping[str, Watched], give_up: Callable[[str], None] | None
    ) -> None:
        self._config = config
        self._redis = redis
        self._fetchers = fetchers
        self._give_up = give_up
        park_seconds = min(MOST_PARK_SECONDS, config.worker.liveness_seconds * PARK_LIVES)
        self.patience_seconds = max(LEAST_PATIENCE_SECONDS, 2 * park_seconds)
        self._suspicions: dict[str, _Suspicion] = {}
        self._loop = Loop("offsider-watchdog", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.join = self._loop.join

    def stuck(self) -> tuple[str, ...]:
        """What does not turn right now, for whoever asks after the worker's health."""
        return tuple(
            _reason(capsule)
            for capsule, suspicion in self._suspicions.copy().items()
            if suspicion.rebuilt_at is not None
        )

    def tick(self) -> float:
        """Look once at every fetcher."""
        now = time.monotonic()
        for capsule, fetcher in self._fetchers.items():
            self._look(capsule, fetcher, now)
        return self.patience_seconds / LOOKS_PER_PATIENCE

    def _look(self, capsule: str, fetcher: Watched, now: float) -> None:
        suspicion = self._suspicions.get(capsule)
        if fetcher.hungry == 0 or now - fetcher.last_look < self.patience_seconds:
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
            logger.info("the fetch loop of capsule %s turns again", capsule)

    def _answers(self) -> bool:
        try:
            self._redis.ping()
        except RedisFailure:
            return False
        return True

    def _rebuild(self, capsule: str, fetcher: Watched, suspicion: _Suspicion, now: float) -> None:
        suspicion.rebuilt_at = now
        error = FetchLoopStuck(
            f"{_reason(capsule)}: no sign of it for {now - fetcher.last_look:.0f} s, though the server answers; "
            "its connections are made anew"
        )
        self._config.handle_error(error, {"context": "the fetch watchdog"})
        fetcher.rebuild()

    def _end(self, capsule: str, fetcher: Watched, suspicion: _Suspicion, now: float) -> None:
        if self._give_up is None:
            self._rebuild(capsule, fetcher, suspicion, now)
            return
        logger.critical("%s, and new connections did not help: this worker stops, to be started anew", _reason(capsule))
        self._give_up(_reason(capsule))
        suspicion.rebuilt_at = now  # not again before as long once more


def _reason(capsule: str) -> str:
    return f"the fetch loop of capsule {capsule} does not turn"
