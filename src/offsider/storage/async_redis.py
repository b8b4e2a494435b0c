"""The asynchronous twin of ``storage.redis``: the same promises, for code that runs on an event loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import ConfigurationError, OffsiderError, RedisRefused, RedisUnavailable
from offsider.storage.failures import REROUTE, translate
from offsider.storage.keys import Keys
from offsider.storage.redis import (
    RedisSettings,
    connection_options,
    login_options,
    pool_exhausted,
    sentinel_addresses,
    sentinel_clients,
    sentinel_options,
)
from offsider.storage.scripts import Argument, Command

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
        settings: where the server is.
        size: the most connections open at a time on one loop.
    """

    def __init__(self, settings: RedisSettings, *, size: int) -> None:
        self.settings = settings
        self.size = size
        self.keys = Keys(settings.key_prefix)
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopPool] = weakref.WeakKeyDictionary()

    async def call(self, *command: Argument) -> Any:
        return (await self.pipeline([command]))[0]

    async def pipeline(self, commands: Sequence[Command], *, raise_errors: bool = True) -> list[Any]:
        """Run several commands in one round trip; see ``storage.redis.Redis.pipeline``."""
        pool = self._pool()
        try:
            async with asyncio.timeout(self.settings.pool_wait_seconds):
                await pool.slots.acquire()
        except TimeoutError:
            raise pool_exhausted(self.settings, self.size) from None
        try:
            connection = pool.free.pop() if pool.free else self._make(pool)
            replies = await self._exchange(connection, commands)
            pool.free.append(connection)
        finally:
            pool.slots.release()
        if raise_errors:
            for reply in replies:
                if isinstance(reply, OffsiderError):
                    raise reply
        return replies

    async def _exchange(self, connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
        from redis.exceptions import RedisError

        settings = self.settings
        server, answer_in, sent = settings.redacted_url, settings.socket_timeout_seconds, False
        try:
            if connection.is_connected and await self._is_stale(connection, RedisError):
                await connection.disconnect(nowait=True)
            if not connection.is_connected:
                async with asyncio.timeout(settings.connect_timeout_seconds + answer_in):
                    await connection.connect()  # type: ignore[no-untyped-call]
            sent = True
            async with asyncio.timeout(answer_in):
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            replies: list[Any] = []
            for _ in commands:
                async with asyncio.timeout(answer_in):
                    replies.append(await self._reply(connection))
        except TimeoutError as error:
            await connection.disconnect(nowait=True)
            msg = f"{server} cannot be reached: no answer in {answer_in:g} s"
            raise RedisUnavailable(msg, ambiguous=sent) from error
        except RedisError as error:
            await connection.disconnect(nowait=True)
            raise translate(error, sent=sent, server=server) from error
        except BaseException:
            # Cancelled in the middle: an unread reply would be taken for the next command's.
            await connection.disconnect(nowait=True)
            raise
        if any(isinstance(reply, RedisRefused) and reply.code in REROUTE for reply in replies):
            await connection.disconnect(nowait=True)
        return replies

    async def _is_stale(self, connection: AbstractConnection, redis_error: type[Exception]) -> bool:
        """See ``storage.redis.Wire``: closed by the server while it was idle, which is no failure."""
        reader = cast("asyncio.StreamReader | None", getattr(connection, "_reader", None))
        if reader is not None and reader.exception() is not None:
            return True  # a reset, which redis-py does not look for
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
            # The connections of a loop that has ended are of no use to anybody.
            for ended in [other for other in self._pools if other.is_closed()]:
                del self._pools[ended]
            pool = self._pools[loop] = _LoopPool(self._factory(), self.size)
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
        # redis-py would send under asyncio.wait_for, which in Python 3.11 may swallow a cancellation.
        options["socket_timeout"] = None
        addresses = sentinel_addresses(settings) if settings.sentinels else []
        try:
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
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            for connection in pool.free:
                await connection.disconnect()
            for sentinel in sentinel_clients(pool.factory):
                await sentinel.aclose()
