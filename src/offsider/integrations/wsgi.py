"""Who called, for Flask and every other WSGI application: ``app.wsgi_app = CallerId(app.wsgi_app)``.

A job that is pushed in a request is stamped with ``meta.caller_id``, such as ``POST /orders/<int:order_id>``, and
with a correlation id: that of the header ``X-Request-ID``, or a fresh one for the request.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator, Iterable, Iterator
from inspect import isgenerator
from typing import Any, TypeAlias, cast

from offsider.wiring.propagation import edge

Environ: TypeAlias = dict[str, Any]
Application: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class CallerId:
    """WSGI middleware.

    Args:
        app: what it is put around.
        header: of the request, where its correlation id may stand.
        caller: names the caller of a request that is on its way, for an application with a routing of its own. Asked
            when something is pushed, since middleware runs before the route is known.
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
            if isgenerator(body):  # it has not begun yet, and pushes when the server asks for its parts
                return _Continued(cast("Generator[bytes, None, None]", body), contextvars.copy_context())
        return body


class _Continued:
    """A generator whose parts are made in the context of the request.

    Args:
        parts: the generator.
        context: of the request.
    """

    def __init__(self, parts: Generator[bytes, None, None], context: contextvars.Context) -> None:
        self._parts = parts
        self._context = context

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._context.run(next, self._parts)

    def close(self) -> None:
        """Called by the server at the end, as for any body."""
        self._context.run(self._parts.close)


def caller_of(environ: Environ) -> str:
    """Method and route, ``POST /orders/<int:order_id>``; with the path itself where the application tells no route."""
    rule: object = getattr(environ.get("werkzeug.request"), "url_rule", None)  # where Flask leaves its request
    template: object = getattr(rule, "rule", None)
    path = template if isinstance(template, str) else environ.get("PATH_INFO") or "/"
    return f"{environ.get('REQUEST_METHOD', 'GET')} {environ.get('SCRIPT_NAME', '')}{path}"
