"""The web UI as a router, behind a dependency of FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack
from urllib.parse import quote, urlencode

from offsider.integrations import missing
from offsider.screens.errors import BadRequest, ScreenError
from offsider.web.asgi_adapter import AsgiApp, Receive, Scope, Send, received, request_of
from offsider.web.mounting import WHO, PageOptions, Servers, behind, checked_name
from offsider.web.request import INCOMPLETE, Request as WebRequest

try:
    from fastapi import APIRouter, Depends, Request, Response
    from starlette.requests import ClientDisconnect
except ImportError as error:
    raise missing("offsider.fastapi", "fastapi") from error


def pages(user: Callable[..., Any], *, config: Servers = None, **options: Unpack[PageOptions]) -> APIRouter:
    """Return the web UI as a router: ``app.include_router(pages(current_staff), prefix="/jobs")``.

    Args:
        user: a dependency that returns the user's name. It denies access with None or an HTTPException, for example
            with a redirect to the login.
        config: the server, or several by name; default: the configuration of this process.
        options: ``authorize``, ``redact``, ``read_only`` and ``app_url``, as in `offsider.web.MountOptions`.
    """
    asgi = AsgiApp(behind(config, **options))
    router = APIRouter(include_in_schema=False)

    # The router converts no result: the response below writes itself.
    @router.api_route("/{path:path}", methods=["GET", "HEAD", "POST"], response_model=None)
    async def page(path: str, request: Request, who: Any = Depends(user)) -> Response:  # noqa: B008
        scope = {**_mounted(request.scope, path), WHO: checked_name(who, user)}
        body = await _body(request, scope) if request.method == "POST" else b""
        return _Page(asgi, request_of(scope, body))

    return router


async def _body(request: Request, scope: Scope) -> bytes | ScreenError:
    """Return the body; a form that a dependency has parsed is encoded again."""
    try:
        return await received(request.stream())
    except ClientDisconnect:
        return BadRequest(INCOMPLETE)
    except RuntimeError:  # consumed
        pass
    try:
        body = urlencode((await request.form()).multi_items()).encode()
    except (RuntimeError, AssertionError):  # consumed, but not as a form; AssertionError without python-multipart
        return BadRequest(INCOMPLETE)
    if body:
        others = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        scope["headers"] = [*others, (b"content-length", str(len(body)).encode())]
    return body


class _Page(Response):
    """A response that the web UI writes."""

    def __init__(self, asgi: AsgiApp, request: WebRequest) -> None:
        super().__init__()
        self._asgi = asgi
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # it is read
        await self._asgi.answer(self._request, send)


def _mounted(scope: Scope, path: str) -> Scope:
    """Return the scope with the path of the router in its ``root_path``."""
    root: str = scope.get("root_path", "").rstrip("/")
    whole: str = scope["path"]
    mount = whole[: len(whole) - len(path)].rstrip("/")
    if mount.startswith(root):
        return {**scope, "root_path": mount}
    # A proxy has removed the root path.
    raw = quote(root).encode() + scope["raw_path"] if scope.get("raw_path") else b""
    return {**scope, "root_path": root + mount, "path": root + whole, "raw_path": raw}
