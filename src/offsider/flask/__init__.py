"""For Flask: settings in ``app.config``, an application context in each job, commands, and the web UI.

::

    offsider = Offsider()

    def create_app() -> Flask:
        app = Flask(__name__)
        app.config["OFFSIDER"] = {"redis": {"url": "redis://localhost/0"}}
        offsider.init_app(app)
        app.register_blueprint(pages(current_staff), url_prefix="/jobs")
        return app
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Unpack, cast
from urllib.parse import urlencode

from offsider.cli.main import main
from offsider.config.application import Application, application
from offsider.config.config import Config
from offsider.config.default import default_config, is_of_worker, use_application
from offsider.core.errors import ConfigurationError
from offsider.integrations import missing
from offsider.integrations.wsgi import CallerId
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Middleware
from offsider.screens.errors import ScreenError
from offsider.web.mounting import WHO, PageOptions, Servers, behind, checked_name
from offsider.web.request import LARGEST_BODY_BYTES, TOO_LARGE
from offsider.web.results import TooLarge
from offsider.web.wsgi_adapter import request_of

try:
    from flask import Blueprint, Flask, Response, request
    from werkzeug.wrappers import Response as BaseResponse
except ImportError as error:
    raise missing("offsider.flask", "flask") from error

__all__ = ["AppContext", "Offsider", "pages"]

logger = logging.getLogger("offsider")

ORIGIN = 'app.config["OFFSIDER"]'


def pages(user: Callable[[], Any], *, config: Servers = None, **options: Unpack[PageOptions]) -> Blueprint:
    """Return the web UI as a blueprint: ``app.register_blueprint(pages(current_staff), url_prefix="/jobs")``.

    Args:
        user: returns the user's name. It denies access with None, ``abort(403)`` or a response such as a redirect to
            the login; so it may have a decorator such as ``login_required`` of Flask-Login.
        config: the server, or several by name; default: the configuration of this process.
        options: ``authorize``, ``redact``, ``read_only`` and ``app_url``, as in `offsider.web.MountOptions`.
    """
    app = behind(config, **options)
    blueprint = Blueprint("offsider", __name__)

    @blueprint.route("/", defaults={"path": ""}, methods=["GET", "HEAD", "POST"])
    @blueprint.route("/<path:path>", methods=["GET", "HEAD", "POST"])
    def page(path: str, **_prefix: object) -> BaseResponse:  # pyright: ignore[reportUnusedFunction]  # Flask calls it
        who = user()
        if isinstance(who, BaseResponse):
            return who
        environ = _below(request.environ, path) | {WHO: checked_name(who, user)}
        body = _body(environ) if request.method == "POST" else b""
        made = app.respond(request_of(environ, body))
        return Response(made.body, made.status, list(made.headers))

    return blueprint


def _below(environ: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the environ as if the blueprint were a mounted application."""
    whole: str = environ["PATH_INFO"]
    mount = whole[: len(whole) - len(path.encode())].rstrip("/")  # one character per byte
    return {
        **environ,
        "SCRIPT_NAME": environ.get("SCRIPT_NAME", "").rstrip("/") + mount,
        "PATH_INFO": whole[len(mount) :],
    }


def _body(environ: dict[str, Any]) -> bytes | ScreenError:
    """Return the body; a form that the application has parsed is encoded again."""
    if (request.content_length or 0) > LARGEST_BODY_BYTES:
        return TooLarge(TOO_LARGE)
    body = request.get_data()
    if not body and request.form:
        body = urlencode([*request.form.items(multi=True)]).encode()
        environ["CONTENT_LENGTH"] = str(len(body))
    return body if len(body) <= LARGEST_BODY_BYTES else TooLarge(TOO_LARGE)


class AppContext:
    """Server middleware: pushes an application context around each job, sync or async.

    ``current_app``, ``g`` and the teardown functions work as in a request; these receive the error of a failed job.

    Args:
        app: the application.
    """

    def __init__(self, app: Flask) -> None:
        self.app = app

    def __call__(self, _job: JobContext) -> Middleware:
        with self.app.app_context():
            yield


class Offsider:
    """Integrates offsider: ``Offsider(app)``, or ``init_app(app)`` in an application factory.

    - The settings in ``app.config["OFFSIDER"]``, as in a configuration file, apply to pushes and workers. Variables of
      the environment override them.
    - Each job runs in an application context, also in the test modes of `offsider.testing`.
    - ``flask offsider worker`` and all other commands of ``offsider`` use the application.
    - Jobs know the route that pushed them.

    A process uses one application for jobs: the last one that was initialized.

    Args:
        app: the application; None to call `init_app` later.

    Raises:
        ConfigurationError: a setting is invalid.
    """

    def __init__(self, app: Flask | None = None) -> None:
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Integrate offsider into an application; its settings must be complete. Raises ConfigurationError."""
        settings = cast("Mapping[str, object]", app.config).get("OFFSIDER", {})
        if not isinstance(settings, Mapping):
            raise ConfigurationError(f"{ORIGIN} must be a dictionary like a configuration file, got {settings!r}")
        if settings and application() is None and is_of_worker(default_config()):
            logger.warning("this worker ignores %s: start it with `flask offsider worker`", ORIGIN)

        def configure(config: Config) -> None:
            config.server_middleware.remove(AppContext)
            config.server_middleware.prepend(AppContext(app))

        use_application(Application(ORIGIN, cast("Mapping[str, Any]", settings), configure))
        app.extensions["offsider"] = self
        app.cli.add_command(main, "offsider")
        app.wsgi_app = CallerId(app.wsgi_app)  # type: ignore[method-assign]  # as Flask documents it
