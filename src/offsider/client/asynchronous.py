"""The asynchronous client. It shares everything but the Redis calls with the blocking client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from offsider.client import bulk
from offsider.client.alike import Pushes, templates
from offsider.client.base import AfterCommit, BaseClient, take_replicas
from offsider.client.collecting import Collector
from offsider.client.delivery import Delivery
from offsider.client.prepared import Prepared, passed, stored_jids
from offsider.client.sync import Client
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.job_id import JobId
from offsider.runtime.middleware import ClientChain, Push
from offsider.storage.async_redis import AsyncRedis


class AsyncClient(BaseClient):
    """Pushes jobs from code that runs on an event loop: the methods of `Client`, awaited.

    Client middleware, the queue resolver and ``after_commit`` are called on the loop and must not block it.
    One client serves any number of loops; each loop has its own connections.

    Args:
        config: as for `Client`.
        redis: the pool to use; default: the pool shared by all asynchronous clients of the configuration.
        middleware, timeout_seconds: as for `Client`.
    """

    def __init__(
        self,
        config: Config | Installation,
        redis: AsyncRedis | None = None,
        *,
        middleware: ClientChain | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        super().__init__(config, middleware, timeout_seconds)
        self._redis = redis
        # It connects at its first push.
        self._blocking = Client(config, middleware=middleware, timeout_seconds=timeout_seconds)

    async def push(self, payload: Mapping[str, Any], *, wait_replicas: int = 0) -> JobId[Any]:
        """As `Client.push`.

        With ``config.after_commit`` set, the push happens in that callback, which cannot be awaited: it then
        goes through a blocking `Client`. Django allows no database call on an event loop, so its
        ``transaction.on_commit`` is called in the thread in which Django runs synchronous code.
        """
        payload, wait_replicas = take_replicas(payload, wait_replicas)
        payload, defer = self._take_hook(payload, wait_replicas)
        push = self._preparer.builder.build(payload)
        if defer is None:
            return await self.store(push, wait_replicas)
        return (await self._defer(defer, [push], wait_replicas))[0]

    async def push_bulk(
        self,
        items: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        spread_interval: float | timedelta | None = None,
        wait_replicas: int = 0,
    ) -> list[JobId[Any]]:
        """As `Client.push_bulk`."""
        items, wait_replicas = take_replicas(items, wait_replicas)
        items, defer = self._take_hook(items, wait_replicas)
        planned = bulk.plan(self._preparer, items, batch_size, spread_interval)
        jids: list[JobId[Any]] = []
        if defer is not None:
            for pushes in planned.pushes(self.config.clock.now()):
                jids += await self._defer(defer, pushes, wait_replicas)
            return jids
        for batch in planned.batches(self._preparer):
            stopped = await self._store(passed(batch), wait_replicas)
            jids += self._job_ids(stored_jids(batch, stopped), planned.template.server)
        return jids

    @property
    def redis(self) -> AsyncRedis:
        """The pool."""
        if self._redis is None:
            self._redis = self.installation.async_redis
        return self._redis

    async def close(self) -> None:
        """Close the idle connections of the running loop; the client may be used again."""
        for redis in {self.redis, *self.installation.of_all_servers(AsyncRedis)}:
            await redis.close()

    async def store(self, push: Push, wait_replicas: int = 0) -> JobId[Any]:
        """As `Client.store`."""
        prepared = self.prepare(push)
        if prepared is None:
            return JobId("")
        stopped = await self._store([prepared], wait_replicas)
        return JobId("") if stopped else JobId.at(self._there(prepared.server), prepared.jid)

    async def _defer(self, hook: AfterCommit | Collector, pushes: Pushes, wait_replicas: int) -> list[JobId[Any]]:
        deferred = self._deferred(self._blocking, pushes, wait_replicas)
        if not isinstance(hook, Collector):
            await call_hook(hook, deferred)
        elif hook.add(deferred):
            await asyncio.to_thread(hook.flush)
        return self._job_ids(deferred.jids, templates(pushes)[0].server)

    async def _store(self, jobs: Sequence[Prepared], wait_replicas: int) -> Collection[str]:
        if not jobs:
            return ()
        sink = test_mode.current()
        if sink is not None:
            sink(jobs)
            return ()
        server = jobs[0].server  # all jobs of a batch have one server
        redis = self.installation.for_server(server).async_redis if server else self.redis
        seconds = self._limit_seconds(wait_replicas)
        await redis.check_server(seconds)
        keys = redis.keys
        also = self._registry.commands(keys, server)
        delivery = Delivery(keys, jobs, wait_replicas, guard=self.config.push_guard, also=also)
        while delivery.commands:
            delivery.take(await redis.pipeline(delivery.commands, raise_errors=False, seconds=seconds))
        return delivery.stopped


async def call_hook(defer: AfterCommit, callback: Callable[[], None]) -> None:
    """Call ``after_commit`` on the loop, or where Django refuses that, in the thread of its synchronous code."""
    try:
        defer(callback)
    except Exception as error:
        if not _is_for_threads(error):
            raise
    else:
        return
    # Outside of the handler: the error would keep the waiting push in memory.
    from asgiref.sync import sync_to_async  # a dependency of Django, which raised the error

    await sync_to_async(defer)(callback)


def _is_for_threads(error: Exception) -> bool:
    """Whether Django refused the database call on an event loop, before executing it."""
    kind = type(error)
    return (kind.__module__, kind.__qualname__) == ("django.core.exceptions", "SynchronousOnlyOperation")
