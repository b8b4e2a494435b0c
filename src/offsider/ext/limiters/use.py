"""One use of a limiter: a context manager for ``with`` and ``async with``.

A limiter describes its commands as a generator of steps, which yields a script call, a list of commands or a pause in
seconds, and receives the replies. So the synchronous and the asynchronous form have the same logic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from offsider.core.errors import ConfigurationError, OffsiderError, RedisFailure, RedisRefused

if TYPE_CHECKING:
    from types import TracebackType

    from offsider.config.installation import Installation
    from offsider.storage.async_redis import AsyncRedis
    from offsider.storage.redis import Redis
    from offsider.storage.scripts import Call, Command

Step: TypeAlias = "Call | list[Command] | float"
Steps: TypeAlias = Generator[Step, Any, None]


class Use:
    """A block that a limiter permits. Use it once.

    If the server fails while the block is left, the error is reported and not raised: the block has done its work.

    Args:
        here: the server of the limiter; None without one.
        what: the limiter, for messages.
        enter: the steps before the block.
        leave: returns the steps after the block, given the points of `points_used`.
    """

    def __init__(
        self,
        here: Installation | None,
        what: str,
        enter: Steps | None = None,
        leave: Callable[[float | None], Steps] | None = None,
    ) -> None:
        self._here = here
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
        if self._here is not None:
            _run(self._begin(), self._here.redis)
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _at: TracebackType | None) -> None:
        if self._here is not None and self._leave is not None:
            try:
                _run(self._leave(self._points), self._here.redis)
            except RedisFailure as error:
                self._report(self._here, error)

    async def __aenter__(self) -> Self:
        if self._here is not None:
            await _run_async(self._begin(), self._here.async_redis)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._here is not None and self._leave is not None:
            try:
                await _run_async(self._leave(self._points), self._here.async_redis)
            except RedisFailure as error:
                self._report(self._here, error)

    def _begin(self) -> Steps:
        steps, self._enter = self._enter, None
        if steps is None:  # the limit would not be checked
            raise ConfigurationError(
                f"{self._what}: this within_limit() was used before: call within_limit() again for each block"
            )
        return steps

    def _report(self, here: Installation, error: RedisFailure) -> None:
        here.config.handle_error(error, {"context": f"ending a block of the {self._what}"})


def _run(steps: Steps, redis: Redis) -> None:
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return
        if isinstance(step, tuple):
            reply = redis.run(*step)
        elif isinstance(step, list):
            reply = redis.pipeline(step)
        else:
            time.sleep(step)


async def _run_async(steps: Steps, redis: AsyncRedis) -> None:
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return
        if isinstance(step, tuple):
            reply = await _run_script(step, redis)
        elif isinstance(step, list):
            reply = await redis.pipeline(step)
        else:
            await asyncio.sleep(step)


async def _run_script(call: Call, redis: AsyncRedis) -> Any:
    script, keys, arguments = call
    (reply,) = await redis.pipeline([script.by_hash(keys, arguments)], raise_errors=False)
    if isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT":
        reply = await redis.call(*script.by_text(keys, arguments))
    if isinstance(reply, OffsiderError):
        raise reply
    return reply
