"""Caller IDs for Starlette, FastAPI and other ASGI applications: ``app.add_middleware(CallerId)``.

A job pushed in a request gets ``meta.caller_id``, such as ``POST /orders/{order_id}``, and a correlation ID: that of
the header ``X-Request-ID``, or a new one for the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias, cast

from offsider.runtime.propagation import edge

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class CallerId:
    """Pure ASGI middleware.

    Args:
        app: the wrapped application.
        header: request header with the correlation ID.
        caller: returns the caller ID of a request, for applications with custom routing. It is called when a job is
            pushed, since the route is not known yet when middleware runs.
    """

    def __init__(
        self, app: Application, *, header: str = "x-request-id", caller: Callable[[Scope], str | None] | None = None
    ) -> None:
        self._app = app
        self._header = header.lower().encode("latin-1")
        self._caller = caller_of if caller is None else caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        with edge(lambda: self._caller(scope), self._correlation_id(scope)):
            await self._app(scope, receive, send)

    def _correlation_id(self, scope: Scope) -> str | None:
        headers = cast("Iterable[tuple[bytes, bytes]]", scope.get("headers", ()))
        return next((value.decode("latin-1") for name, value in headers if name.lower() == self._header), None)


def caller_of(scope: Scope) -> str:
    """Return method and route, ``POST /orders/{order_id}``; without a route, method and path."""
    return f"{scope.get('method', 'WEBSOCKET')} {_route_of(scope)}"


def _route_of(scope: Scope) -> str:
    path: str = scope["path"]
    route = scope.get("route")
    template: object = getattr(route, "path", None)
    if not isinstance(template, str):
        return path
    outer: str = scope.get("root_path") or ""
    if hasattr(route, "routes"):  # a mounted application that sets no route
        return outer or template
    if ":path}" in template:  # matches any number of segments
        return outer + template
    # The route contains only its own end of the path, without the prefix of its mount or include.
    segments, own = path.split("/"), template.split("/")[1:]
    before = segments[: len(segments) - len(own)]
    names = _names_of(scope.get("path_params") or {}, template)
    return "/".join([*(names.get(segment, segment) for segment in before), *own])


def _names_of(params: Mapping[str, object], template: str) -> dict[str, str]:
    """Return the parameters of outer routes, as value -> name."""
    return {str(value): f"{{{name}}}" for name, value in params.items() if f"{{{name}" not in template}
