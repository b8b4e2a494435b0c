"""The asynchronous version of ``storage.redis``, with the same guarantees, for code on an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import ConfigurationError, OffsiderError, RedisRefused, RedisUnavailable
from offsider.storage.cluster import async_kind, make_pool, redirected
from offsider.storage.keys import Keys
from offsider.storage.redis import (
    RedisSettings,
    check_kind,
    connection_options,
    login_options,
    packer,
    pool_exhausted,
    sentinel_addresses,
    sentinel_clients,
    sentinel_options,
    time_left,
)
from offsider.storage.redis_errors import CLUSTER_QUESTION, REROUTE, translate
from offsider.storage.scripts import Argument, Command
from offsider.storage.server_version import VERSION_QUESTION

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection


class _LoopPool:
    """The connections of one event loop: a connection belongs to the loop that opened it."""

    def __init__(self, factory: Any, size: int) -> None:
        self.factory = factory
        self.free: list[AbstractConnection] = []
        self.slots = asyncio.Semaphore(size)


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
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopPool] = weakref.WeakKeyDictionary()
        self._adding = threading.Lock()
        self._is_checked = False
        self._packer: Callable[[Sequence[Command]], Sequence[bytes]] | None = None

    async def call(self, *command: Argument) -> Any:
        return (await self.pipeline([command]))[0]

    async def check_server(self, deadline: float | None = None) -> None:
        """See ``storage.redis.Redis.check_server``."""
        if self._is_checked:
            return
        try:
            (reply,) = await self.pipeline([CLUSTER_QUESTION], raise_errors=False, deadline=deadline)
            if isinstance(reply, RedisRefused):
                (reply,) = await self.pipeline([VERSION_QUESTION], raise_errors=False, deadline=deadline)
        except RedisUnavailable as error:
            raise RedisUnavailable(str(error), ambiguous=False) from error  # nothing was pushed yet
        check_kind(reply, self.settings)
        self._is_checked = True

    async def pipeline(
        self, commands: Sequence[Command], *, raise_errors: bool = True, deadline: float | None = None
    ) -> list[Any]:
        """Run several commands in one round trip; see ``storage.redis.Redis.pipeline``."""
        pool = self._pool()
        await self._take_slot(pool, deadline)
        try:
            connection = pool.free.pop() if pool.free else self._make(pool)
            replies = await self._exchange(connection, commands, deadline)
            if self.settings.is_cluster:
                await self._reroute(connection, commands, replies, deadline)
            pool.free.append(connection)
        finally:
            pool.slots.release()
        if raise_errors:
            for reply in replies:
                if isinstance(reply, OffsiderError):
                    raise reply
        return replies

    async def _take_slot(self, pool: _LoopPool, deadline: float | None) -> None:
        if not pool.slots.locked():  # most calls: it does not wait
            await pool.slots.acquire()
            return
        wait_seconds = self.settings.pool_wait_seconds if deadline is None else time_left(deadline)
        try:
            async with asyncio.timeout(wait_seconds):
                await pool.slots.acquire()
        except TimeoutError:
            raise pool_exhausted(self.settings, self.size, wait_seconds) from None

    async def _reroute(
        self, connection: Any, commands: Sequence[Command], replies: list[Any], deadline: float | None
    ) -> None:
        """See ``storage.redis.Redis``."""
        until = deadline or time.monotonic() + self.settings.socket_timeout_seconds
        for again in redirected(commands, replies, until):
            await asyncio.sleep(again.pause_seconds)
            repeated = [commands[place] for place in again.places]
            try:
                if again.asking:
                    await connection.ask()
                    pairs = [one for command in repeated for one in (("ASKING",), command)]
                    new = (await self._exchange(connection, pairs, deadline))[1::2]
                    await connection.disconnect(nowait=True)
                else:
                    new = await self._exchange(connection, repeated, deadline)
            except RedisUnavailable as error:
                if error.ambiguous or len(repeated) == len(commands):
                    raise
                return  # the others were executed
            for place, reply in zip(again.places, new, strict=True):
                replies[place] = reply

    async def _exchange(
        self, connection: AbstractConnection, commands: Sequence[Command], deadline: float | None
    ) -> list[Any]:
        from redis.exceptions import RedisError

        settings = self.settings
        answer_in, sent = settings.socket_timeout_seconds, False
        replies: list[Any] = []
        try:
            # One timeout, which is set anew for each reply: each costs as much as packing the commands of a push.
            first = settings.connect_timeout_seconds + answer_in
            async with asyncio.timeout(first if deadline is None else time_left(deadline)) as limit:
                if connection.is_connected and await self._is_stale(connection, RedisError):
                    await connection.disconnect(nowait=True)
                if not connection.is_connected:
                    await connection.connect()  # type: ignore[no-untyped-call]
                sent = True
                await connection.send_packed_command(self._pack(connection, commands), check_health=False)
                for _ in commands:
                    if deadline is None:
                        limit.reschedule(asyncio.get_running_loop().time() + answer_in)
                    replies.append(await self._reply(connection))
        except TimeoutError as error:
            await connection.disconnect(nowait=True)
            within = f"within {answer_in:g} s" if deadline is None else "in time"
            message = f"{settings.redacted_url} cannot be reached: no reply {within}"
            raise RedisUnavailable(message, ambiguous=sent) from error
        except RedisError as error:
            await connection.disconnect(nowait=True)
            raise translate(error, sent=sent, server=settings.redacted_url) from error
        except BaseException:
            # After a cancellation, an unread reply would be taken for the next command's.
            await connection.disconnect(nowait=True)
            raise
        for reply in replies:  # as in ``storage.redis``
            if isinstance(reply, RedisRefused) and reply.code in REROUTE:
                await connection.disconnect(nowait=True)
                break
        return replies

    def _pack(self, connection: AbstractConnection, commands: Sequence[Command]) -> Sequence[bytes]:
        if self._packer is None:
            self._packer = packer(connection)
        return self._packer(commands)

    async def _is_stale(self, connection: AbstractConnection, redis_error: type[Exception]) -> bool:
        """Whether the server closed the idle connection, which is not a failure; see ``storage.redis.Wire``."""
        reader = cast("asyncio.StreamReader | None", getattr(connection, "_reader", None))
        if reader is not None and reader.exception() is not None:
            return True  # a reset, which redis-py does not check for
        try:
            return bool(await connection.can_read())
        except redis_error:
            return True

    async def _reply(self, connection: AbstractConnection) -> Any:
        from redis.exceptions import ResponseError

        untyped: Any = connection
        try:
            reply = await untyped.read_response()
        except ResponseError as error:
            return translate(error, sent=True, server=self.settings.redacted_url)
        return reply

    def _pool(self) -> _LoopPool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = _LoopPool(self._factory(), self.size)
            with self._adding:  # each loop runs in its own thread
                # Connections of a closed loop are unusable.
                for ended in [other for other in self._pools if other.is_closed()]:
                    del self._pools[ended]
                self._pools[loop] = pool
        return pool

    def _make(self, pool: _LoopPool) -> AbstractConnection:
        connection: AbstractConnection = pool.factory.make_connection()
        return connection

    def _factory(self) -> Any:
        # Imported at first use: importing redis-py takes longer than all of offsider.
        from redis.asyncio import connection, sentinel
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.maint_notifications import MaintNotificationsConfig

        untyped_connection: Any = connection
        untyped_sentinel: Any = sentinel
        settings = self.settings
        options = connection_options(settings, retry=Retry(NoBackoff(), 0))
        options["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
        # With a timeout, redis-py sends under asyncio.wait_for, which may swallow a cancellation in Python 3.11.
        options["socket_timeout"] = None
        addresses = sentinel_addresses(settings) if settings.sentinels else []
        try:
            if settings.is_cluster:
                return make_pool(settings.url, settings.prefix, options, connection, async_kind)
            if addresses:
                options = login_options(untyped_connection.parse_url(settings.url)) | options
                options["ssl"] = settings.url.startswith("rediss://")
                own = sentinel_options(settings, retry=Retry(NoBackoff(), 0))
                sentinels = untyped_sentinel.Sentinel(addresses, sentinel_kwargs=own)
                return untyped_sentinel.SentinelConnectionPool(settings.sentinel_name, sentinels, **options)
            return untyped_connection.ConnectionPool.from_url(settings.url, **options)
        except ValueError as error:
            msg = f"redis.url: {settings.redacted_url!r} is not usable: {error}"
            raise ConfigurationError(msg) from error

    async def close(self) -> None:
        """Close the idle connections of the running loop."""
        with self._adding:
            pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            for connection in pool.free:
                await connection.disconnect()
            for sentinel in sentinel_clients(pool.factory):
                await sentinel.aclose()
