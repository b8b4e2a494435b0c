"""Caller IDs for Flask and other WSGI applications: ``app.wsgi_app = CallerId(app.wsgi_app)``.

A job pushed in a request gets ``meta.caller_id``, such as ``POST /orders/<int:order_id>``, and a correlation ID: that
of the header ``X-Request-ID``, or a new one for the request.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator, Iterable, Iterator
from inspect import isgenerator
from typing import Any, TypeAlias, cast

from offsider.runtime.propagation import edge

Environ: TypeAlias = dict[str, Any]
Application: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class CallerId:
    """WSGI middleware.

    Args:
        app: the wrapped application.
        header: request header with the correlation ID.
        caller: returns the caller ID of a request, for applications with custom routing. It is called when a job is
            pushed, since the route is not known yet when middleware runs.
    """

    def __init__(
        self,
        app: Application,
        *,
        header: str = "x-request-id",
        caller: Callable[[Environ], str | None] | None = None,
    ) -> None:
        self._app = app
        self._header = f"HTTP_{header.upper().replace('-', '_')}"
        self._caller = caller_of if caller is None else caller

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        with edge(lambda: self._caller(environ), environ.get(self._header)):
            body = self._app(environ, start_response)
            if isgenerator(body):  # it has not started yet, and pushes jobs while the server iterates over it
                return _Continued(cast("Generator[bytes, None, None]", body), contextvars.copy_context())
        return body


class _Continued:
    """A generator whose parts are produced in the context of the request.

    Args:
        parts: the generator.
        context: context of the request.
    """

    def __init__(self, parts: Generator[bytes, None, None], context: contextvars.Context) -> None:
        self._parts = parts
        self._context = context

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._context.run(next, self._parts)

    def close(self) -> None:
        """Close the generator; the server calls this at the end."""
        self._context.run(self._parts.close)


def caller_of(environ: Environ) -> str:
    """Return method and route, ``POST /orders/<int:order_id>``; without a route, method and path."""
    rule: object = getattr(environ.get("werkzeug.request"), "url_rule", None)  # set by Flask
    template: object = getattr(rule, "rule", None)
    path = template if isinstance(template, str) else environ.get("PATH_INFO") or "/"
    return f"{environ.get('REQUEST_METHOD', 'GET')} {environ.get('SCRIPT_NAME', '')}{path}"
