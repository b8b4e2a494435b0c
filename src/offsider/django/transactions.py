"""Delays pushes until the commit of the open transactions."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connections, transaction
from django.utils.asyncio import async_unsafe

from offsider.config import test_mode


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
