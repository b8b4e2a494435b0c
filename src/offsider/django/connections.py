"""Database connections around each job, as Django handles them around each request."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakSet

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import close_old_connections, connections

from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Middleware

_prepared: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def connections_of_a_job(run: JobContext) -> Middleware:
    """Close, before and after a job, the connections that are broken or older than their ``CONN_MAX_AGE``.

    An ``async def`` job runs database calls in a thread of its own, as an async view does; its connections are closed
    with that thread, or returned to their pool. In a shared thread, one job could close another job's connection.
    The worker's own thread may end after such a job, so its connections are closed regardless of their age.
    ``asyncio.to_thread`` and ``sync_to_async(thread_sensitive=False)`` call functions in threads of the event loop:
    there, connections are closed by their age before and after each call.
    """
    close = close_old_connections

    def noting(coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        nonlocal close
        close = connections.close_all
        return _in_prepared_loop(coroutine)

    run.wrap_coroutine(noting)
    close_old_connections()
    threads = ThreadSensitiveContext()
    token = SyncToAsync.thread_sensitive_context.set(threads)
    try:
        yield
    finally:
        SyncToAsync.thread_sensitive_context.reset(token)
        executor = SyncToAsync.context_to_thread_executor.pop(threads, None)
        if executor is not None:  # the job made database calls from a coroutine
            executor.submit(connections.close_all)
            executor.shutdown(wait=False)  # a query of a cancelled job may still run there
        close()


async def _in_prepared_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    loop = asyncio.get_running_loop()
    if loop not in _prepared:
        _prepared.add(loop)
        loop.set_default_executor(_ClosingExecutor(thread_name_prefix="asyncio"))
    return await coroutine


class _ClosingExecutor(ThreadPoolExecutor):
    """Closes the connections of its threads that are broken or too old, before and after each call."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def call() -> Any:
            close_old_connections()
            try:
                return fn(*args, **kwargs)
            finally:
                close_old_connections()

        return super().submit(call)
