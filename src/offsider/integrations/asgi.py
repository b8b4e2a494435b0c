"""Who called, for Starlette, FastAPI and every other ASGI application: ``app.add_middleware(CallerId)``.

A job that is pushed in a request is stamped with ``meta.caller_id``, such as ``POST /orders/{order_id}``, and with a
correlation id: that of the header ``X-Request-ID``, or a fresh one for the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias, cast

from offsider.wiring.propagation import edge

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class CallerId:
    """Pure ASGI middleware.

    Args:
        app: what it is put around.
        header: of the request, where its correlation id may stand.
        caller: names the caller of a request that is on its way, for an application with a routing of its own. Asked
            when something is pushed, since middleware runs before the route is known.
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
    """Method and route, ``POST /orders/{order_id}``; with the path itself where the application tells no route."""
    return f"{scope.get('method', 'WEBSOCKET')} {_route_of(scope)}"


def _route_of(scope: Scope) -> str:
    path: str = scope["path"]
    route = scope.get("route")
    template: object = getattr(route, "path", None)
    if not isinstance(template, str):
        return path
    outer: str = scope.get("root_path") or ""
    if hasattr(route, "routes"):  # something mounted that tells no route of its own
        return outer or template
    if ":path}" in template:  # as many segments as there are
        return outer + template
    # The route knows its own end of the path alone, and not where it was mounted or included.
    segments, own = path.split("/"), template.split("/")[1:]
    before = segments[: len(segments) - len(own)]
    names = _names_of(scope.get("path_params") or {}, template)
    return "/".join([*(names.get(segment, segment) for segment in before), *own])


def _names_of(params: Mapping[str, object], template: str) -> dict[str, str]:
    """The parameters of outer routes by their values."""
    return {str(value): f"{{{name}}}" for name, value in params.items() if f"{{{name}" not in template}
