"""The web UI as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeAlias
from urllib.parse import quote

from offsider.web.app import WebApp
from offsider.web.request import LARGEST_BODY_BYTES, Request, Response

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: Characters that need no quoting in a path.
PATH_LETTERS = "/:@!$&'()*+,;=~%"


class AsgiApp:
    """Handle each HTTP request in a thread, with as many threads as Redis connections."""

    def __init__(self, app: WebApp) -> None:
        self.app = app
        sizes = [here.settings.client_pool_size for here in app.options.servers.values()]
        self._threads = ThreadPoolExecutor(max(1, sum(sizes)), thread_name_prefix="offsider-web")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            request = request_of(scope, await _body(receive))
            await _send(send, await self._response(request))

    async def _response(self, request: Request) -> Response:
        loop, context = asyncio.get_running_loop(), copy_context()

        def wait(awaitable: Awaitable[Any]) -> Any:
            return asyncio.run_coroutine_threadsafe(_awaited(awaitable), loop).result()

        def respond() -> Response:
            return context.run(self.app.respond, request, wait)

        return await loop.run_in_executor(self._threads, respond)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def request_of(scope: Scope, body: bytes | None) -> Request:
    """Build the request of a scope; a body of None means too large."""
    root, path = _paths(scope)
    client = scope.get("client")
    return Request(
        method=scope["method"],
        path=path,
        root=root,
        query=scope.get("query_string", b"").decode("latin-1"),
        headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
        body=body or b"",
        scheme=scope.get("scheme", "http"),
        client=str(client[0]) if client else "",
        context=scope,
        too_large=body is None,
    )


def _paths(scope: Scope) -> tuple[str, str]:
    """Return the mount path and the path below it, both quoted.

    Some servers and frameworks include the mount path in the path, some do not.
    """
    root = quote(scope.get("root_path", "").rstrip("/"), safe=PATH_LETTERS)
    raw = scope.get("raw_path")
    path = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return root, path or "/"


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        length += len(parts[-1])
        if length > LARGEST_BODY_BYTES:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


async def _send(send: Send, response: Response) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
