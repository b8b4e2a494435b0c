"""Caller IDs for Django: add ``"offsider.django.middleware.CallerId"`` to ``MIDDLEWARE``, near the top.

A job pushed in a request gets ``meta.caller_id``, such as ``POST /orders/<int:order_id>/``, and a correlation ID: that
of the header ``X-Request-ID``, or a new one for the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from offsider.integrations import missing
from offsider.runtime.propagation import edge

try:
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction
except ImportError as error:
    raise missing("offsider.django", "django") from error


class CallerId:
    """Django middleware for sync and async views.

    Args:
        get_response: the rest of the chain.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)  # pyright: ignore[reportDeprecated]  # 3.14 on
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        if self._is_async:
            return self._respond(request)
        with edge(lambda: caller_of(request), request.headers.get("X-Request-ID")):
            return self._get_response(request)

    async def _respond(self, request: Any) -> Any:
        with edge(lambda: caller_of(request), request.headers.get("X-Request-ID")):
            return await cast("Awaitable[Any]", self._get_response(request))


def caller_of(request: Any) -> str:
    """Return method and route, ``POST /orders/<int:order_id>/``; before a route is resolved, method and path."""
    route: object = getattr(getattr(request, "resolver_match", None), "route", None)
    return f"{request.method} {'/' + route if isinstance(route, str) else request.path}"
