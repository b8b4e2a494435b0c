"""Solves dependencies with FastAPI's own resolver, in FastAPI 0.115 and newer.

FastAPI has no public function for it. All names that are not public are in this module:

- ``get_dependant``, ``get_typed_signature`` and ``solve_dependencies`` of ``fastapi.dependencies.utils``;
- from 0.121 on generators are closed by two stacks in the scope of the request, before by ``async_exit_stack``.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from offsider.core.errors import ConfigurationError, InvalidJob
from offsider.integrations import missing

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


def dependencies_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function that are dependencies, with resolved annotations."""
    return [each for each in _get_typed_signature(function).parameters.values() if _is_dependency(each)]


def _is_dependency(parameter: inspect.Parameter) -> bool:
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(each, params.Depends) for each in (parameter.default, *metadata))


class Resolver:
    """Solves the dependencies of one job.

    Args:
        name: the job, for messages.
        parameters: its dependencies.
        overrides: returns the current overrides, dependency to replacement.

    Raises:
        InvalidJob: a dependency needs a request.
        ConfigurationError: FastAPI's resolver has changed.
    """

    def __init__(
        self, name: str, parameters: list[inspect.Parameter], overrides: Callable[[], Mapping[Any, Any]]
    ) -> None:
        def stand_in() -> None: ...

        by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        cast(Any, stand_in).__signature__ = inspect.Signature(by_name)
        self._name = name
        self._overrides = overrides
        self._dependant = _get_dependant(path="/", call=stand_in)
        self._accepted = inspect.signature(_solve).parameters
        known = {"request", "dependant", "dependency_overrides_provider", "async_exit_stack", "embed_body_fields"}
        for parameter in self._accepted.values():
            if parameter.default is parameter.empty and parameter.name not in known:
                raise _moved(f"its resolver has a new parameter {parameter.name}")
        for dependant in self._dependant.dependencies:
            for found in _needs_of_request(dependant):
                raise InvalidJob(f"{name}: {found}, and a job has no request: pass the value as an argument of the job")

    @property
    def dependency_overrides(self) -> Mapping[Any, Any]:
        """For FastAPI, which reads this attribute of an application."""
        return self._overrides()

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
