"""Runs a job immediately, without Redis, with all other steps of a worker.

1. client middleware and strict arguments, as for a push
2. conversion to JSON and back, so that the job gets the same arguments as in a worker
3. server middleware and the job, with ``current_job()`` set
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from offsider.client import Prepared
from offsider.config.config import Config
from offsider.core.compression import decode_plain
from offsider.core.errors import Discard, Skip
from offsider.jobs import registry
from offsider.jobs.chunk import Call
from offsider.jobs.declared import Declared
from offsider.runtime.context import JobContext, enter_job, running
from offsider.runtime.middleware import Middleware, ServerChain, check_coroutine, leave, leave_by_error, thread_bound


def run_prepared(
    config: Config,
    prepared: Prepared,
    declared: Declared | None = None,
    *,
    server_middleware: ServerChain | None = None,
    succeeded: Callable[[JobContext, Any], None] | None = None,
) -> Any:
    """Run a prepared push and return the job's result; None if it raised ``Skip`` or ``Discard``.

    Args:
        config: provides the server middleware.
        prepared: the push.
        declared: the job to run; default: the job registered under the payload's class name.
        server_middleware: a chain instead of the configuration's.
        succeeded: called with the run and its result, unless it raised.

    Raises:
        UnknownJob: no job is registered under its class name.
        InvalidArguments: the arguments do not match the job.
        Reschedule: the job raised it, and without Redis it cannot run later.
        BaseException: exceptions of the job.
    """
    chain = config.server_middleware if server_middleware is None else server_middleware
    payload = decode_plain(prepared.raw)
    job = JobContext(payload=payload, queue=prepared.queue, raw=prepared.raw)
    job.declared = declared = declared if declared is not None else registry.find(job.name)
    if declared.chunk:
        for error in run_chunk([prepared], declared, chain, succeeded):
            if error is not None:
                raise error
        return None
    with running(job):
        try:
            result = chain.run(job, partial(_perform, chain))
        except (Discard, Skip):
            return None
        if succeeded is not None:
            succeeded(job, result)
        return result


def run_chunk(
    prepared: Sequence[Prepared],
    declared: Declared,
    chain: ServerChain,
    succeeded: Callable[[JobContext, Any], None] | None,
) -> list[BaseException | None]:
    """Run pushes of one job in one call; return the error of each, None after ``Skip`` and ``Discard``."""
    members = [_Member(each, declared) for each in prepared]
    for member in members:
        member.context.run(member.enter, chain)
    calls = [member.call for member in members if member.call is not None]
    failure: BaseException | None = None
    try:
        result = declared.perform_chunk(calls) if calls else None
        if inspect.iscoroutine(result):
            _run_to_its_end(result)
    except BaseException as error:  # noqa: BLE001 - of its members
        failure = error
    return [member.context.run(member.leave, failure, succeeded) for member in members]


class _Member:
    """One job of a chunk, in a context of its own."""

    def __init__(self, prepared: Prepared, declared: Declared) -> None:
        self.job = JobContext(decode_plain(prepared.raw), prepared.queue, prepared.raw, declared)
        self.context = contextvars.copy_context()
        self.call: Call[Any] | None = None
        self._error: BaseException | None = None
        self._entered: list[Middleware] = []

    def enter(self, chain: ServerChain) -> None:
        enter_job(self.job)
        try:
            if chain.enter(self.job, self._entered) is None:
                if self.job.declared.is_async:
                    check_coroutine(thread_bound(chain), self.job)
                self.call = self.job.declared.call_of(self.job)
        except BaseException as error:  # noqa: BLE001 - of this job
            self._error = error

    def leave(
        self, failure: BaseException | None, succeeded: Callable[[JobContext, Any], None] | None
    ) -> BaseException | None:
        error = self._error
        if self.call is not None:
            error = failure if self.call.error is None else self.call.error
        try:
            if error is not None:
                leave_by_error(self._entered, error)
            leave(self._entered, None)
        except (Discard, Skip):
            return None
        except BaseException as raised:  # noqa: BLE001 - of this job
            return raised
        if succeeded is not None:
            succeeded(self.job, None)
        return None


def _perform(chain: ServerChain, job: JobContext) -> object:
    """The innermost step. As in a worker, an ``async def`` job has finished when ``yield`` returns."""
    declared = job.declared
    assert isinstance(declared, Declared)  # noqa: S101  # set by the only caller
    declared.signature.check_fits(job.args, job.kwargs)
    result = declared.perform(declared.make(job), job.args, job.kwargs)
    if inspect.iscoroutine(result):
        check_coroutine(thread_bound(chain), job, result)
        result = _run_to_its_end(job.wrapped(result))
    declared.check_ran(result)
    return result


def _run_to_its_end(coroutine: Coroutine[Any, Any, object]) -> object:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_in_this_thread(coroutine)
    # This thread's loop is blocked by the caller, so the job runs on a loop in another thread.
    with ThreadPoolExecutor(1) as other_thread, _copied_context() as context:
        return other_thread.submit(_run, coroutine, context).result()


@contextmanager
def _copied_context() -> Generator[contextvars.Context, None, None]:
    """Yield a copy of the context, and copy back what the job has set: middleware sees it after its ``yield``."""
    context = contextvars.copy_context()
    try:
        yield context
    finally:
        for variable, value in context.items():
            if variable.get(None) is not value:
                variable.set(value)


def _run(coroutine: Coroutine[Any, Any, object], context: contextvars.Context) -> object:
    with asyncio.Runner() as runner:
        return runner.run(coroutine, context=context)


def _run_in_this_thread(coroutine: Coroutine[Any, Any, object]) -> object:
    asgiref: Any = sys.modules.get("asgiref.sync")
    if asgiref is None:
        with _copied_context() as context:
            return _run(coroutine, context)

    async def run() -> object:
        return await coroutine

    # Its `sync_to_async`, and so the ORM of Django, then runs in this thread, with the transaction of a test.
    return asgiref.async_to_sync(run)()
