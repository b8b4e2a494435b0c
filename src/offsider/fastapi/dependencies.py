"""``Depends`` in jobs: parameters that FastAPI's resolver fills for each run.

1. The wrapper has the signature of the job without its dependencies, so they are in no payload.
2. Before the run the dependencies are solved; an ``async def`` job does that in its own task.
3. After the run generators are closed: they continue after their ``yield``, or receive the error of the job there.

The function of a plain job stays in its thread, where time limits and stops can interrupt it. FastAPI's resolver is
asynchronous, so the dependencies of plain jobs are solved on one event loop in a background thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, TypeVar, cast

from offsider.core.errors import InvalidJob
from offsider.fastapi.resolver import Resolver, dependencies_of
from offsider.fastapi.startup import running_apps
from offsider.jobs.function import JobFunction

# ----------------------------------------------------------------------------------------------------
# An event loop in a background thread, on which the dependencies of plain jobs are solved.
#
# One loop for all jobs of the process, because pools of connections belong to a loop.

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


P = ParamSpec("P")
R = TypeVar("R")

dependency_overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Replacements of dependencies in jobs, for tests, as ``app.dependency_overrides`` has them for requests."""


def inject(function: Callable[P, R]) -> Callable[P, R]:
    """Fill the parameters of a job that are dependencies of FastAPI. Place it below ``@job``.

    ::

        @job
        @inject
        def welcome(user_id: int, session: Session = Depends(get_session)) -> None: ...

        welcome.enqueue(42)
        welcome(42, session=a_session)      # a direct call may pass dependencies by name

    Dependencies are solved for each run and cached within it. Generators are closed after the run: after a success
    they continue after ``yield``, and an exception there fails the job; after a failure they receive its exception. A
    generator that suppresses the exception does not make the job succeed.

    For tests, `dependency_overrides` replaces dependencies; those of an application apply as well between the start and
    the end of its `lifespan`.

    Raises:
        InvalidJob: no parameter is a dependency, a dependency needs a request, or the function is a generator or is
            already a job.
        ConfigurationError: FastAPI's resolver has changed.
    """
    if isinstance(function, JobFunction):
        raise InvalidJob(f"{function.declared.name}: place @inject below @job")
    job = _Injected(function)

    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        bound = job.bind(args, kwargs)
        if job.is_complete(bound):
            return job.call(bound, {})
        return call_within(job.resolver.solved(), functools.partial(job.call, bound))

    async def arun(*args: P.args, **kwargs: P.kwargs) -> Any:
        bound = job.bind(args, kwargs)
        if job.is_complete(bound):
            return await job.call(bound, {})
        suppressed: BaseException
        async with job.resolver.solved() as values:
            try:
                return await job.call(bound, values)
            except BaseException as error:
                suppressed = error
                raise
        raise suppressed  # reached only if a generator suppressed it

    wrapper: Any = functools.wraps(function)(arun if inspect.iscoroutinefunction(function) else run)
    wrapper.__signature__ = job.signature
    return cast("Callable[P, R]", wrapper)


class _Injected:
    """A job with dependencies; ``signature`` is the one without them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        name = f"{function.__module__}.{function.__qualname__}"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidJob(f"{name} contains yield, so it is a generator, and a worker would never run its body")
        dependencies = dependencies_of(function)
        if not dependencies:
            raise InvalidJob(f"{name}: @inject found no parameter with Depends(...)")
        self.resolver = Resolver(name, dependencies, _overrides)
        self._function = function
        self._whole = inspect.signature(function)
        self._names = {parameter.name for parameter in dependencies}
        own = [each for each in self._whole.parameters.values() if each.name not in self._names]
        self.signature = self._whole.replace(parameters=own)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = {key: kwargs[key] for key in self._names & kwargs.keys()}
        bound = self.signature.bind(*args, **{key: kwargs[key] for key in kwargs.keys() - given.keys()})
        bound.apply_defaults()
        return bound.arguments | given

    def is_complete(self, bound: dict[str, Any]) -> bool:
        """Whether a direct call passed every dependency."""
        return bound.keys() >= self._names

    def call(self, bound: dict[str, Any], values: dict[str, Any]) -> Any:
        arguments = values | bound
        ordered = {name: arguments[name] for name in self._whole.parameters}
        whole = inspect.BoundArguments(self._whole, cast(Any, ordered))
        return self._function(*whole.args, **whole.kwargs)


def _overrides() -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    for app in running_apps:
        merged |= getattr(app, "dependency_overrides", {})
    return merged | dependency_overrides
