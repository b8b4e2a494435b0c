"""The web UI as a Flask blueprint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsider.core.errors import ConfigurationError
from offsider.web.mounting import Servers, named, web_app
from offsider.web.options import Authorize, WebOptions
from offsider.web.redaction import Redact
from offsider.web.request import Request
from offsider.web.wsgi_adapter import request_of

try:
    from flask import Blueprint, Response, request
    from werkzeug.wrappers import Response as BaseResponse
except ImportError as error:
    raise ConfigurationError('offsider.flask needs more: pip install "offsider[flask]"') from error

#: Key of the user name in the environ.
WHO = "offsider.who"


def pages(
    user: Callable[[], Any],
    *,
    config: Servers = None,
    authorize: Authorize | None = None,
    redact: Redact | None = None,
    read_only: bool = False,
    app_url: str = "",
) -> Blueprint:
    """Return the web UI as a blueprint: ``app.register_blueprint(pages(current_staff), url_prefix="/jobs")``.

    Args:
        user: returns the user's name. It denies access with None, ``abort(403)`` or a response such as a redirect to
            the login; so it may have a decorator such as ``login_required`` of Flask-Login.
        config: the server, or several by name; default: the configuration of this process.
        authorize, redact, read_only, app_url: as for `offsider.web.wsgi`.
    """
    options = WebOptions(
        servers=named(config),
        authenticate=_who,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        check_host=False,  # a matter of the application: TRUSTED_HOSTS
        app_url=app_url,
    )
    app = web_app(options)
    blueprint = Blueprint("offsider", __name__)

    @blueprint.route("/", defaults={"path": ""}, methods=["GET", "HEAD", "POST"])
    @blueprint.route("/<path:path>", methods=["GET", "HEAD", "POST"])
    def page(path: str) -> BaseResponse:  # pyright: ignore[reportUnusedFunction]  # Flask calls it
        who = user()
        if isinstance(who, BaseResponse):
            return who
        if who is not None and not isinstance(who, str):
            name = getattr(user, "__qualname__", repr(user))
            raise ConfigurationError(
                f"{name} must return the user's name, None or a response, got {type(who).__name__}"
            )
        made = app.respond(request_of(_below(request.environ, path) | {WHO: who}))
        return Response(made.body, made.status, list(made.headers))

    return blueprint


def _who(visit: Request) -> str | None:
    return visit.context[WHO] or None


def _below(environ: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the environ as if the blueprint were a mounted application."""
    whole: str = environ["PATH_INFO"]
    mount = whole[: len(whole) - len(path.encode())].rstrip("/")  # one character per byte
    return {**environ, "SCRIPT_NAME": environ.get("SCRIPT_NAME", "") + mount, "PATH_INFO": whole[len(mount) :]}
