"""Running a job here and now, without Redis, but through everything else that a worker would do.

1. client middleware and strict arguments, as for a push
2. to JSON and back, so that the job gets what a worker would get
3. server middleware and the job, with ``current_job()`` set
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from offsider.client import Prepared
from offsider.core.compression import decode_plain
from offsider.core.errors import Discard, Skip
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.wiring.config import Config
from offsider.wiring.context import JobContext, running
from offsider.wiring.middleware import ServerChain


def run_prepared(
    config: Config,
    prepared: Prepared,
    declared: Declared | None = None,
    *,
    server_middleware: ServerChain | None = None,
) -> Any:
    """Run a prepared push and answer the job's result; None when it raised ``Skip`` or ``Discard``.

    Args:
        config: whose server middleware is walked.
        prepared: the push.
        declared: what runs; default: what is registered under the payload's class name.
        server_middleware: a chain in place of the configuration's.

    Raises:
        UnknownJob: no job is registered under its class name.
        InvalidArguments: the arguments do not fit the job.
        Reschedule: the job asked to run later, and here is nobody who could do that.
        BaseException: whatever the job raises.
    """
    chain = config.server_middleware if server_middleware is None else server_middleware
    payload = decode_plain(prepared.raw)
    job = JobContext(payload=payload, queue=prepared.queue, raw=prepared.raw)
    with running(job):
        job.declared = declared if declared is not None else registry.find(job.name)
        try:
            return chain.compose(_perform)(job)
        except (Discard, Skip):
            return None


def _perform(job: JobContext) -> object:
    """The innermost step. As in a worker, an ``async def`` job has ended when ``call_next`` returns."""
    declared = job.declared
    assert isinstance(declared, Declared)  # noqa: S101  # set by the only caller
    declared.check_fits(job.args, job.kwargs)
    result = declared.perform(declared.make(job), job.args, job.kwargs)
    return _run_to_its_end(result) if inspect.iscoroutine(result) else result


def _run_to_its_end(coroutine: Coroutine[Any, Any, object]) -> object:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    # This thread's loop is busy with whoever called us, so the job gets a loop in another thread.
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as other_thread:
        return other_thread.submit(context.run, asyncio.run, coroutine).result()
