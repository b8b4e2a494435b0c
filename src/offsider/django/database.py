"""Database connections around each job, as Django handles them around requests; and pushes after a commit."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any
from weakref import WeakSet

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import close_old_connections, connections, transaction
from django.utils.asyncio import async_unsafe

from offsider.config import test_mode
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Middleware
from offsider.worker.run.finishing import takes_jobs

_prepared: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def connections_of_a_job(run: JobContext) -> Middleware:
    """Close, before and after a job, the connections that are broken or older than their ``CONN_MAX_AGE``.

    An ``async def`` job runs database calls in a thread of its own, as an async view does; its connections are closed
    with that thread, or returned to their pool. In a shared thread, one job could close another job's connection.
    The worker's thread that entered the middleware takes other jobs meanwhile: its connections are closed by their age
    when the coroutine leaves it. The thread that leaves the middleware may end then, so its connections are closed
    regardless of their age.
    ``asyncio.to_thread`` and ``sync_to_async(thread_sensitive=False)`` call functions in threads of the event loop:
    there, connections are closed by their age before and after each call.
    """
    close = close_old_connections

    def noting(coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        nonlocal close
        close = connections.close_all
        close_old_connections()
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


def close_left_connections(_run: JobContext) -> Middleware:
    """Close, before other middleware leaves an async job, what handlers and events have left in the finishing thread.

    Add it after all middleware that uses connections. `connections_of_a_job` is left last, and so too late for that.
    """
    try:
        yield
    finally:
        if not takes_jobs():
            close_old_connections()


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


@async_unsafe("In async code, use `await job.aenqueue(...)`: a push may have to wait for the transaction of a thread.")
def after_commit(callback: Callable[[], None]) -> None:
    """Call ``callback`` when all open transactions of this thread are committed; now if none is open.

    If one of them is rolled back, also to a savepoint before the push, it is never called.

    Raises:
        TransactionManagementError: one of them was opened by hand, after ``set_autocommit(False)``.
    """
    pending = [connection for connection in connections.all(initialized_only=True) if is_open(connection)]
    for connection in pending:
        if not connection.in_atomic_block:
            raise transaction.TransactionManagementError(
                f"offsider: a push cannot wait for the commit of database {connection.alias!r}, after "
                "set_autocommit(False): Django runs on_commit() callbacks only after atomic(). Use atomic(), or "
                "commit and then push with `job.using(after_commit=False).enqueue(...)`"
            )
    if not pending:
        default = transaction.get_connection()
        if not default.in_atomic_block:  # `on_commit` would connect to the database first
            callback()
            return
        pending = [default]  # of a TestCase: `captureOnCommitCallbacks` gets it
    left = [connection.alias for connection in pending]
    if test_mode.current() is not None:
        test_mode.databases[callback] = left

    def committed(alias: str) -> None:
        left.remove(alias)
        if not left:
            callback()

    for connection in pending:
        connection.on_commit(partial(committed, connection.alias))


def is_open(connection: Any) -> bool:
    """Whether the application opened a transaction; a ``TestCase`` opens one around each test."""
    if not connection.in_atomic_block:  # opened by hand, after `set_autocommit(False)`
        return connection.connection is not None and not connection.autocommit
    return any(not getattr(block, "_from_testcase", False) for block in connection.atomic_blocks)
