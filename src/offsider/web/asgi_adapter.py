"""The web UI as an ASGI application."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeAlias
from urllib.parse import quote

from offsider.screens.errors import BadRequest, ScreenError
from offsider.web.app import WebApp
from offsider.web.request import BODY_SECONDS, INCOMPLETE, LARGEST_BODY_BYTES, TOO_LARGE, Request, Response
from offsider.web.results import TooLarge

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: Characters that need no quoting in a path.
PATH_LETTERS = "/:@!$&'()*+,;=~%"
_ESCAPE = re.compile("%[0-9a-fA-F]{2}")


class AsgiApp:
    """Handle each HTTP request in a thread, with as many threads as Redis connections."""

    def __init__(self, app: WebApp) -> None:
        self.app = app
        sizes = [installation.settings.client_pool_size for installation in app.options.servers.values()]
        self._threads = ThreadPoolExecutor(max(1, sum(sizes)), thread_name_prefix="offsider-web")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            body = await received(_chunks(receive)) if scope["method"] == "POST" else b""
            await self.answer(request_of(scope, body), send)

    async def answer(self, request: Request, send: Send) -> None:
        """Send the response to a request."""
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


def request_of(scope: Scope, body: bytes | ScreenError) -> Request:
    """Build the request of a scope with its body, or with the reason to refuse it."""
    root, path = _paths(scope)
    client = scope.get("client")
    return Request(
        method=scope["method"],
        path=path,
        root=root,
        query=scope.get("query_string", b"").decode("latin-1"),
        headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
        body=body if isinstance(body, bytes) else b"",
        scheme=scope.get("scheme", "http"),
        client=str(client[0]) if client else "",
        context=scope,
        refusal=None if isinstance(body, bytes) else body,
    )


def _paths(scope: Scope) -> tuple[str, str]:
    """Return the mount path and the path below it, both quoted.

    The path of a request may include the mount path, or not. It includes only the end of it if the application with the
    mount has a root path of its own, which a proxy removes.
    """
    root = quote(scope.get("root_path", "").rstrip("/"), safe=PATH_LETTERS)
    raw = scope.get("raw_path")
    path = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~")
    path = _ESCAPE.sub(lambda found: found[0].upper(), path)  # proxies write %c3 or %C3
    outer = quote(scope.get("app_root_path", "").rstrip("/"), safe=PATH_LETTERS)  # set by Starlette's Mount
    for prefix in (root, root.removeprefix(outer)):
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            return root, path[len(prefix) :] or "/"
    return root, path or "/"


async def received(chunks: AsyncIterator[bytes]) -> bytes | ScreenError:
    """Return the body, or the reason why it was not received whole.

    The wait is limited: after an application has read the body, a server waits for the end of the connection.
    """
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in chunks:
                body += chunk
                if len(body) > LARGEST_BODY_BYTES:
                    return TooLarge(TOO_LARGE)
    except TimeoutError:
        return BadRequest(INCOMPLETE)
    except ScreenError as error:
        return error
    return body


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest(INCOMPLETE)
        yield message.get("body", b"")
        if not message.get("more_body"):
            return


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
