"""The asynchronous version of ``storage.redis``, with the same guarantees, for code on an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from offsider.core.errors import OffsiderError, RedisFailure, RedisRefused, RedisUnavailable
from offsider.storage.async_wire import LATE_SECONDS, AsyncWire
from offsider.storage.cluster import async_kind, redirected
from offsider.storage.keys import Keys
from offsider.storage.redis import (
    POOL_WAIT_SECONDS,
    RedisSettings,
    check_kind,
    connection_options,
    pool_exhausted,
    pool_of,
    sentinel_clients,
)
from offsider.storage.redis_errors import CLUSTER_QUESTION, REROUTE
from offsider.storage.scripts import Argument, Command
from offsider.storage.server_version import VERSION_QUESTION


class _Waiter(NamedTuple):
    """A task that waits for a connection, since a time of the loop."""

    since: float
    seconds: float
    turn: asyncio.Future[AsyncWire | None]

    def until(self, replied_at: float) -> float:
        """Return when it gives up; the last reply to another task starts its time again."""
        return max(self.since, replied_at) + self.seconds


class _LoopPool:
    """The connections of one event loop: a connection belongs to the loop that opened it.

    Attributes:
        factory: a pool of redis-py that only creates connections.
        free: connections that are not in use; None for each that may still be opened. It is empty while a task
            waits. A semaphore would cost each push 3 us.
        replies: number of calls that the server has answered.
        checks: the running checks of the server, by their limit in seconds.
        is_closed: whether the pool was dropped by `AsyncRedis.close`; a connection in use is then closed after it.
    """

    def __init__(self, factory: Any, size: int) -> None:
        self.factory = factory
        self.free: list[AsyncWire | None] = [None] * size
        self.replies = 0
        self.checks: dict[float | None, asyncio.Task[None]] = {}
        self.is_closed = False
        self._waiting: deque[_Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._seen, self._replied_at = 0, 0.0

    async def wait(self, seconds: float) -> AsyncWire | None:
        """Wait until another task gives back a connection. Raises TimeoutError after ``seconds`` without any reply."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.time(), seconds, loop.create_future())
        self._waiting.append(waiter)
        self._ring_until(waiter.since + seconds)
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled() and not waiter.turn.exception():  # it got one at the same time
                self.give_back(waiter.turn.result())
            raise

    def _ring_until(self, until: float) -> None:
        """Let the timer ring at this time at the latest. One timer serves all tasks: thousands may wait."""
        if self._timer is None or until < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(until, self._ring, until)

    def _ring(self, until: float) -> None:
        now, self._timer = asyncio.get_running_loop().time(), None
        if self.replies != self._seen or now > until + LATE_SECONDS:
            self._seen, self._replied_at = self.replies, now
        for waiter in self._waiting:
            if waiter.until(self._replied_at) <= now and not waiter.turn.done():
                waiter.turn.set_exception(TimeoutError())
        self._waiting = deque(waiter for waiter in self._waiting if not waiter.turn.done())
        if self._waiting:
            self._ring_until(min(waiter.until(self._replied_at) for waiter in self._waiting))

    def give_back(self, wire: AsyncWire | None) -> None:
        """Give a connection to the task that has waited the longest, or keep it."""
        while self._waiting:
            turn = self._waiting.popleft().turn
            if not turn.done():
                turn.set_result(wire)
                return
        self.free.append(wire)


class AsyncRedis:
    """A bounded pool of connections, one set for each event loop that uses it.

    Args:
        settings: address of the server.
        size: maximum number of open connections per loop.
    """

    def __init__(self, settings: RedisSettings, *, size: int) -> None:
        self.settings = settings
        self.size = size
        self.keys = Keys(settings.prefix)
        #: Weak keys would keep nothing less: the connections refer to their loop. `_add_pool` removes closed loops.
        self._pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self._adding = threading.Lock()
        self._is_checked = False

    async def call(self, *command: Argument) -> Any:
        return (await self.pipeline([command]))[0]

    async def check_server(self, seconds: float | None = None) -> None:
        """See ``storage.redis.Redis.check_server``. Tasks that start together share one check."""
        if self._is_checked:
            return
        checks = self._pool().checks
        if seconds not in checks:
            checks[seconds] = asyncio.create_task(self._check_server(seconds))
            checks[seconds].add_done_callback(lambda _: checks.pop(seconds))
        await asyncio.shield(checks[seconds])  # the others go on if this task is cancelled

    async def _check_server(self, seconds: float | None) -> None:
        try:
            (reply,) = await self.pipeline([CLUSTER_QUESTION], raise_errors=False, seconds=seconds)
            if isinstance(reply, RedisRefused):
                (reply,) = await self.pipeline([VERSION_QUESTION], raise_errors=False, seconds=seconds)
        except RedisUnavailable as error:
            raise RedisUnavailable(str(error), ambiguous=False) from error  # nothing was pushed yet
        check_kind(reply, self.settings)
        self._is_checked = True

    async def pipeline(
        self, commands: Sequence[Command], *, raise_errors: bool = True, seconds: float | None = None
    ) -> list[Any]:
        """Run several commands in one round trip; see ``storage.redis.Redis.pipeline``.

        Args:
            commands, raise_errors: as there.
            seconds: duration that connecting and the replies may take, and before it the wait for a connection;
                default: the timeouts of the settings.
        """
        pool = self._pool()
        if pool.free:
            wire = pool.free.pop()
        else:
            wire, seconds = await self._wait(pool, seconds)
        try:
            if wire is None:
                wire = AsyncWire(pool.factory.make_connection, self.settings)
            # Not earlier: a busy loop may take longer than the limit until here.
            deadline = None if seconds is None else time.monotonic() + seconds
            replies = await wire.exchange(commands, deadline)
            pool.replies += 1
            for reply in replies:
                if isinstance(reply, RedisFailure) and reply.code in REROUTE:
                    await self._reroute(wire, commands, replies, deadline)
                    break
        finally:
            if pool.is_closed and wire is not None:
                await wire.disconnect()
            pool.give_back(wire)
        if raise_errors:
            for reply in replies:
                if isinstance(reply, OffsiderError):
                    raise reply
        return replies

    async def _wait(self, pool: _LoopPool, seconds: float | None) -> tuple[AsyncWire | None, float | None]:
        """Wait for a connection; return it, and the seconds left: all of them if the server answered others."""
        limit = POOL_WAIT_SECONDS if seconds is None else seconds
        began, before = time.monotonic(), pool.replies
        try:
            wire = await pool.wait(limit)
        except TimeoutError:
            raise pool_exhausted(self.settings, self.size, limit, "tasks") from None
        if seconds is not None and pool.replies == before:
            seconds -= time.monotonic() - began
        return wire, seconds

    async def _reroute(
        self, wire: AsyncWire, commands: Sequence[Command], replies: list[Any], deadline: float | None
    ) -> None:
        """See ``storage.redis.Redis``."""
        await wire.disconnect()
        if not self.settings.is_cluster:
            return
        until = deadline or time.monotonic() + self.settings.socket_timeout_seconds
        for again in redirected(commands, replies, until):
            await asyncio.sleep(again.pause_seconds)
            repeated = [commands[place] for place in again.places]
            try:
                new = await (wire.ask(repeated, until) if again.asking else wire.exchange(repeated, deadline))
            except RedisUnavailable as error:
                if error.ambiguous or len(repeated) == len(commands):
                    raise
                return  # the others were executed
            for place, reply in zip(again.places, new, strict=True):
                replies[place] = reply
            if any(isinstance(reply, RedisFailure) and reply.code in REROUTE for reply in new):
                await wire.disconnect()

    def _pool(self) -> _LoopPool:
        return self._pools.get(asyncio.get_running_loop()) or self._add_pool()

    def _add_pool(self) -> _LoopPool:
        pool = _LoopPool(self._factory(), self.size)
        with self._adding:  # each loop runs in its own thread
            # Connections of a closed loop are unusable.
            for ended in [other for other in self._pools if other.is_closed()]:
                del self._pools[ended]
            self._pools[asyncio.get_running_loop()] = pool
        return pool

    def _factory(self) -> Any:
        # Imported at first use: importing redis-py takes longer than all of offsider.
        from redis.asyncio import connection, sentinel
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        options = connection_options(self.settings, retry=Retry(NoBackoff(), 0))
        # `AsyncWire` limits the time. With a timeout, redis-py sends under asyncio.wait_for, which may swallow a
        # cancellation in Python 3.11.
        options["socket_timeout"] = None
        return pool_of(self.settings, options, connection, sentinel, async_kind)

    async def close(self) -> None:
        """Close the connections of the running loop: the idle ones now, the others after their call."""
        with self._adding:
            pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            pool.is_closed = True
            for wire in pool.free:
                if wire is not None:
                    await wire.close()
            for sentinel in sentinel_clients(pool.factory):
                await sentinel.aclose()
