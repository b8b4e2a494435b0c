"""The web UI as a Flask blueprint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsider.integrations.missing import missing
from offsider.web.mounting import WHO, Servers, behind, checked_name
from offsider.web.options import Authorize
from offsider.web.redaction import Redact
from offsider.web.wsgi_adapter import request_of

try:
    from flask import Blueprint, Response, request
    from werkzeug.wrappers import Response as BaseResponse
except ImportError as error:
    raise missing("offsider.flask", "flask") from error


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
    app = behind(config, authorize=authorize, redact=redact, read_only=read_only, app_url=app_url)
    blueprint = Blueprint("offsider", __name__)

    @blueprint.route("/", defaults={"path": ""}, methods=["GET", "HEAD", "POST"])
    @blueprint.route("/<path:path>", methods=["GET", "HEAD", "POST"])
    def page(path: str) -> BaseResponse:  # pyright: ignore[reportUnusedFunction]  # Flask calls it
        who = user()
        if isinstance(who, BaseResponse):
            return who
        made = app.respond(request_of(_below(request.environ, path) | {WHO: checked_name(who, user)}))
        return Response(made.body, made.status, list(made.headers))

    return blueprint


def _below(environ: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the environ as if the blueprint were a mounted application."""
    whole: str = environ["PATH_INFO"]
    mount = whole[: len(whole) - len(path.encode())].rstrip("/")  # one character per byte
    return {**environ, "SCRIPT_NAME": environ.get("SCRIPT_NAME", "") + mount, "PATH_INFO": whole[len(mount) :]}
