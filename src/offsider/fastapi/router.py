"""The web UI as a router, behind a dependency of FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from offsider.integrations import missing
from offsider.web.asgi_adapter import AsgiApp, Receive, Scope, Send
from offsider.web.mounting import WHO, Servers, behind, checked_name
from offsider.web.options import Authorize
from offsider.web.redaction import Redact

try:
    from fastapi import APIRouter, Depends, Request, Response
except ImportError as error:
    raise missing("offsider.fastapi", "fastapi") from error


def pages(
    user: Callable[..., Any],
    *,
    config: Servers = None,
    authorize: Authorize | None = None,
    redact: Redact | None = None,
    read_only: bool = False,
    app_url: str = "",
) -> APIRouter:
    """Return the web UI as a router: ``app.include_router(pages(current_staff), prefix="/jobs")``.

    Args:
        user: a dependency that returns the user's name. It denies access with None or an HTTPException, for example
            with a redirect to the login.
        config: the server, or several by name; default: the configuration of this process.
        authorize, redact, read_only, app_url: as for `offsider.web.asgi`.
    """
    asgi = AsgiApp(behind(config, authorize=authorize, redact=redact, read_only=read_only, app_url=app_url))
    router = APIRouter(include_in_schema=False)

    # The router converts no result: the response below writes itself.
    @router.api_route("/{path:path}", methods=["GET", "HEAD", "POST"], response_model=None)
    async def page(path: str, request: Request, who: Any = Depends(user)) -> Response:  # noqa: B008
        return _Page(asgi, {**_mounted(request.scope, path), WHO: checked_name(who, user)})

    return router


class _Page(Response):
    """A response that the web UI writes."""

    def __init__(self, asgi: AsgiApp, scope: Scope) -> None:
        super().__init__()
        self._asgi = asgi
        self._scope = scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # without the user
        await self._asgi(self._scope, receive, send)


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
