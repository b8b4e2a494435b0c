"""Database connections around each job, as Django handles them around each request."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import close_old_connections, connections

from offsider.runtime.context import current_job_or_none


@contextmanager
def connections_of_a_job() -> Generator[None, None, None]:
    """Close the connections of all databases that are broken or older than their ``CONN_MAX_AGE``, before and after.

    An ``async def`` job runs database calls in a thread of its own, as an async view does; its connections are closed
    with that thread, or returned to their pool. In a shared thread, one job could close another job's connection.
    The worker's own thread may end after such a job, so its connections are closed regardless of their age.
    """
    run, close = current_job_or_none(), close_old_connections

    def noting(coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        nonlocal close
        close = connections.close_all
        return coroutine

    if run is not None:
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
