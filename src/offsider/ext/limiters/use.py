"""One use of a limiter: a context manager for ``with`` and ``async with``.

A limiter enters a block by an iterator of the pauses between its attempts. ``async with`` runs the attempts in a
thread, and waits on the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Self

from offsider.core.errors import ConfigurationError, RedisFailure

if TYPE_CHECKING:
    from types import TracebackType

    from offsider.config.installation import Installation


class Use:
    """A block that a limiter permits. Use it once.

    If the server fails while the block is left, the error is reported and not raised: the block has done its work.

    Args:
        server: the server of the limiter; None without one.
        what: the limiter, for messages.
        enter: yields the seconds until the next attempt, until the block may run.
        leave: called after the block with the points of `points_used`.
    """

    def __init__(
        self,
        server: Installation | None,
        what: str,
        enter: Iterator[float] | None = None,
        leave: Callable[[float | None], None] | None = None,
    ) -> None:
        self._server = server
        self._what = what
        self._enter = enter
        self._leave = leave
        self._points: float | None = None

    def points_used(self, points: float) -> None:
        """Report the points that the block has used, instead of the estimate. Applied at the end of the block.

        Only the last report counts. Other kinds than points ignore it.

        Raises:
            ConfigurationError: it is not a number of at least 0.
        """
        if type(points) not in (int, float) or not 0 <= points <= 1e9:
            raise ConfigurationError(f"{self._what}: points_used expects a number of at least 0, got {points!r}")
        self._points = points

    def __enter__(self) -> Self:
        if self._server is not None:
            for pause_seconds in self._begin():
                time.sleep(pause_seconds)
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _at: TracebackType | None) -> None:
        if self._server is not None and self._leave is not None:
            self._end(self._server, self._leave)

    async def __aenter__(self) -> Self:
        if self._server is not None:
            attempt = partial(next, self._begin(), None)
            # Other processes give no signal.
            while (pause_seconds := await self._server.loop_threads.run(attempt)) is not None:  # noqa: ASYNC110
                await asyncio.sleep(pause_seconds)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._server is not None and self._leave is not None:
            await self._server.loop_threads.run(partial(self._end, self._server, self._leave))

    def _begin(self) -> Iterator[float]:
        pauses, self._enter = self._enter, None
        if pauses is None:  # the limit would not be checked
            raise ConfigurationError(
                f"{self._what}: this within_limit() was used before: call within_limit() again for each block"
            )
        return pauses

    def _end(self, server: Installation, leave: Callable[[float | None], None]) -> None:
        try:
            leave(self._points)
        except RedisFailure as error:
            server.config.handle_error(error, {"context": f"ending a block of the {self._what}"})
