"""The web UI as a router, behind a dependency of FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from offsider.core.errors import ConfigurationError
from offsider.web.asgi_adapter import AsgiApp, Receive, Scope, Send
from offsider.web.mounting import Servers, named, web_app
from offsider.web.options import Authorize, WebOptions
from offsider.web.redaction import Redact
from offsider.web.request import Request as WebRequest

try:
    from fastapi import APIRouter, Depends, Request, Response
except ImportError as error:
    raise ConfigurationError('offsider.fastapi needs more: pip install "offsider[fastapi]"') from error

#: Key of the user name in the scope.
WHO = "offsider.who"


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
    options = WebOptions(
        servers=named(config),
        authenticate=_who,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        check_host=False,  # a matter of the application: TrustedHostMiddleware
        app_url=app_url,
    )
    asgi = AsgiApp(web_app(options))
    router = APIRouter(include_in_schema=False)

    # The router converts no result: the response below writes itself.
    @router.api_route("/{path:path}", methods=["GET", "HEAD", "POST"], response_model=None)
    async def page(path: str, request: Request, who: Any = Depends(user)) -> Response:  # noqa: B008
        if who is not None and not isinstance(who, str):
            name = getattr(user, "__qualname__", repr(user))
            raise ConfigurationError(f"{name} must return the name of the user or None, got {type(who).__name__}")
        return _Page(asgi, {**_mounted(request.scope, path), WHO: who})

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


def _who(request: WebRequest) -> str | None:
    return request.context[WHO] or None
