"""An event loop in a background thread, on which the dependencies of plain jobs are solved.

One loop for all jobs of the process, because pools of connections belong to a loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def call_within(manager: AbstractAsyncContextManager[Any], function: Callable[[Any], Any]) -> Any:
    """Call ``function`` in this thread with the value of an asynchronous context manager.

    An error of the function is raised even if the context manager suppresses it.
    """
    loop = _running_loop()
    entered: Future[Any] = Future()
    left: Future[BaseException | None] = Future()
    ended: asyncio.Future[BaseException | None] = loop.create_future()
    context = contextvars.copy_context()  # current_job() works in dependencies
    loop.call_soon_threadsafe(lambda: loop.create_task(_hold(manager, entered, ended, left), context=context))
    failed: BaseException | None = None
    try:
        return function(entered.result())
    except BaseException as error:
        failed = error
        raise
    finally:
        loop.call_soon_threadsafe(ended.set_result, failed)
        raised = left.result()
        if raised is not None and raised is not failed:
            raise raised


async def _hold(
    manager: AbstractAsyncContextManager[Any],
    entered: Future[Any],
    ended: asyncio.Future[BaseException | None],
    left: Future[BaseException | None],
) -> None:
    """Enter and leave in one task, as cancel scopes require.

    Errors are passed on as values: a SystemExit that a task raises would end the loop.
    """
    try:
        entered.set_result(await manager.__aenter__())
    except BaseException as error:  # noqa: BLE001
        left.set_result(error)
        entered.set_exception(error)
        return
    failed = await ended
    raised: BaseException | None = None
    try:
        kind, trace = (None, None) if failed is None else (type(failed), failed.__traceback__)
        await manager.__aexit__(kind, failed, trace)
    except BaseException as error:  # noqa: BLE001
        raised = error
    left.set_result(raised)


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603  # one per process
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="offsider-dependencies", daemon=True).start()
        return _loop


def _after_fork() -> None:
    global _loop, _lock  # the thread exists in the parent only
    _loop, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
