"""``Depends`` in jobs: parameters that FastAPI's resolver fills for each run.

1. The wrapper has the signature of the job without its dependencies, so they are in no payload.
2. Before the run the dependencies are solved; an ``async def`` job does that in its own task.
3. After the run generators are closed: they continue after their ``yield``, or receive the error of the job there.

The function of a plain job stays in its thread, where time limits and stops can interrupt it. FastAPI's resolver is
asynchronous, so the dependencies of plain jobs are solved on one event loop in a background thread.

FastAPI, from 0.115 on, has no public function to solve dependencies. The names that are not public are
``get_dependant``, ``get_typed_signature`` and ``solve_dependencies`` of ``fastapi.dependencies.utils``, and the two
stacks in the scope of a request that close generators from 0.121 on (before: ``async_exit_stack``).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, ParamSpec, TypeVar, cast

from offsider.core.errors import ConfigurationError, InvalidJob
from offsider.fastapi.startup import running_apps
from offsider.integrations import missing
from offsider.jobs.function import JobFunction

try:
    import fastapi
    from fastapi import params
    from starlette.requests import Request
except ImportError as error:
    raise missing("offsider.fastapi", "fastapi") from error


def _moved(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"this version of offsider cannot solve dependencies with FastAPI {fastapi.__version__}: {what}; upgrade "
        "offsider, or install an older FastAPI"
    )


try:
    from fastapi.dependencies import utils

    _get_dependant: Callable[..., Any] = utils.get_dependant
    _get_typed_signature: Callable[..., inspect.Signature] = utils.get_typed_signature
    _solve: Callable[..., Any] = utils.solve_dependencies
except (ImportError, AttributeError) as error:
    raise _moved(str(error)) from error

_NO_REQUEST: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
_OF_REQUEST = ("request", "websocket", "http_connection", "response", "background_tasks")
_FIELDS = ("path", "query", "header", "cookie", "body")
_GIVEN = {"request", "dependant", "dependency_overrides_provider", "async_exit_stack", "embed_body_fields"}

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
    ended: asyncio.Future[BaseException | None] = loop.create_future()
    # The task runs in a copy of this thread's context, so that current_job() works in dependencies.
    left = asyncio.run_coroutine_threadsafe(_hold(manager, entered, ended), loop)
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
    manager: AbstractAsyncContextManager[Any], entered: Future[Any], ended: asyncio.Future[BaseException | None]
) -> BaseException | None:
    """Enter and leave in one task, as cancel scopes require. Returns the error with which it left.

    Errors are passed on as values: a SystemExit that a task raises would end the loop.
    """
    try:
        async with manager as value:
            entered.set_result(value)
            failed = await ended
            if failed is not None:
                raise failed  # noqa: TRY301  # the manager has to see it
    except BaseException as error:  # noqa: BLE001
        if not entered.done():
            entered.set_exception(error)
        return error
    return None


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


# ----------------------------------------------------------------------------------------------------
# FastAPI's own resolver


def dependencies_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function that are dependencies, with resolved annotations."""
    return [each for each in _get_typed_signature(function).parameters.values() if _is_dependency(each)]


def _is_dependency(parameter: inspect.Parameter) -> bool:
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(each, params.Depends) for each in (parameter.default, *metadata))


def _needs_of_request(dependant: Any) -> Iterator[str]:
    call = getattr(dependant.call, "__qualname__", repr(dependant.call))
    for kind in _OF_REQUEST:
        parameter = getattr(dependant, f"{kind}_param_name", None)
        if parameter:
            yield f"the dependency {call} has the parameter {parameter} for the {kind}"
    for kind in _FIELDS:
        for field in getattr(dependant, f"{kind}_params"):
            if field.field_info.is_required():
                yield f"the dependency {call} reads {field.name} from the {kind}"
    for inner in dependant.dependencies:
        yield from _needs_of_request(inner)


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
        return call_within(job.solved(), functools.partial(job.call, bound))

    async def arun(*args: P.args, **kwargs: P.kwargs) -> Any:
        bound = job.bind(args, kwargs)
        if job.is_complete(bound):
            return await job.call(bound, {})
        suppressed: BaseException
        async with job.solved() as values:
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
    """A job with dependencies, which FastAPI's resolver solves; ``signature`` is the one without them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = name = f"{function.__module__}.{function.__qualname__}"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidJob(f"{name} contains yield, so it is a generator, and a worker would never run its body")
        dependencies = dependencies_of(function)
        if not dependencies:
            raise InvalidJob(f"{name}: @inject found no parameter with Depends(...)")
        self._function = function
        self._whole = inspect.signature(function)
        self._names = {parameter.name for parameter in dependencies}
        own = [each for each in self._whole.parameters.values() if each.name not in self._names]
        self.signature = self._whole.replace(parameters=own)
        self._accepted = inspect.signature(_solve).parameters
        for parameter in self._accepted.values():
            if parameter.default is parameter.empty and parameter.name not in _GIVEN:
                raise _moved(f"its resolver has a new parameter {parameter.name}")

        def stand_in() -> None: ...

        by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in dependencies]
        cast(Any, stand_in).__signature__ = inspect.Signature(by_name)
        self._dependant = _get_dependant(path="/", call=stand_in)
        for dependant in self._dependant.dependencies:
            for found in _needs_of_request(dependant):
                raise InvalidJob(f"{name}: {found}, and a job has no request: pass the value as an argument of the job")

    @property
    def dependency_overrides(self) -> Mapping[Any, Any]:
        """The current overrides, dependency to replacement. FastAPI reads this attribute of an application."""
        merged: dict[Any, Any] = {}
        for app in running_apps:
            merged |= getattr(app, "dependency_overrides", {})
        return merged | dependency_overrides

    @asynccontextmanager
    async def solved(self) -> AsyncGenerator[dict[str, Any], None]:
        """Solve the dependencies of one run, and close generators at the end, which see the error of the block."""
        async with AsyncExitStack() as outer, AsyncExitStack() as inner:
            stacks = {"fastapi_inner_astack": outer, "fastapi_function_astack": inner}
            request = Request({**_NO_REQUEST, **stacks})
            given = {
                "request": request,
                "dependant": self._dependant,
                "dependency_overrides_provider": self,
                "async_exit_stack": outer,
                "embed_body_fields": False,
            }
            solved = await _solve(**{key: value for key, value in given.items() if key in self._accepted})
            if solved.errors:  # of an override: the declared dependencies were checked
                places = ", ".join(".".join(map(str, error["loc"])) for error in solved.errors)
                raise InvalidJob(f"{self._name}: a dependency needs {places} of a request, and a job has no request")
            yield solved.values

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
