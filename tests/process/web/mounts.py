"""The web UI in every framework, each served by a real server: `python -m tests.process.web.mounts`.

It prints a line of JSON: the port of each mount. With the header `x-read` an application reads the body of a request
before the web UI does.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
import uvicorn
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.urls import include, path
from fastapi import FastAPI, Request
from flask import Flask, request as flask_request
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount

from offsider.django.pages import pages as django_pages
from offsider.fastapi import pages as fastapi_pages
from offsider.flask import pages as flask_pages
from offsider.web import asgi, asgi_adapter, wsgi

#: A server with a limit that a test can wait for.
asgi_adapter.BODY_SECONDS = 1.0


def who(*_: object) -> str:
    return "kim"


# ------------------------------------------------------------------------------- one application per mount


def reading(app: Any) -> Any:
    """ASGI middleware that reads the body, and does not hand it on."""

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"x-read") == b"stream":
            while (await receive()).get("more_body"):
                pass
        await app(scope, receive, send)

    return respond


async def read(request: Request, call_next: Callable[..., Any] | None = None) -> Any:
    """Read the body in the way that the request asks for, as Starlette's middleware or as a dependency."""
    match request.headers.get("x-read"):
        case "form":
            await request.form()
        case "body":
            await request.body()
        case "stream" if call_next is None:
            async for _ in request.stream():
                pass
    return "kim" if call_next is None else await call_next(request)


def in_starlette() -> Any:
    app = Starlette(routes=[Mount("/jobs", asgi(authenticate=who))])
    app.add_middleware(BaseHTTPMiddleware, dispatch=read)
    return reading(app)


def in_fastapi() -> Any:
    app = FastAPI()
    app.include_router(fastapi_pages(read), prefix="/jobs")
    return app


def in_wsgi() -> Any:
    pages = wsgi(authenticate=who)

    def respond(environ: Any, start_response: Any) -> Any:
        if environ.get("HTTP_X_READ"):  # as a server that knows where the body ends
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = iter_none()
        environ["SCRIPT_NAME"], environ["PATH_INFO"] = "/jobs", environ["PATH_INFO"].removeprefix("/jobs")
        return pages(environ, start_response)

    return respond


class iter_none:  # noqa: N801
    """An input that has ended."""

    def read(self, size: int = -1) -> bytes:
        return b""


def in_flask() -> Any:
    app = Flask("shop")
    app.register_blueprint(flask_pages(lambda: "kim"), url_prefix="/jobs")

    @app.before_request
    def read_before() -> None:
        match flask_request.headers.get("x-read"):
            case "form":
                flask_request.form.to_dict()
            case "body":
                flask_request.get_data()
            case "stream":
                flask_request.stream.read()

    return app


class Reading:
    """Django middleware."""

    sync_capable, async_capable = True, False

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        match request.headers.get("x-read"):
            case "form":
                request.POST.dict()
            case "body":
                _ = request.body
            case "stream":
                request.read()
        return self.get_response(request)


urlpatterns = [path("jobs/", include(django_pages(authenticate=who)))]


# ------------------------------------------------------------------------------- servers


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def serve_wsgi(app: Any) -> int:
    server = make_server("127.0.0.1", 0, app, server_class=Threads, handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def serve_asgi(app: Any) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
    threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True).start()
    return int(listener.getsockname()[1])


def mounts() -> Iterator[tuple[str, int]]:
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[f"{__name__}.Reading"], SECRET_KEY="x")
    django.setup()
    yield "starlette", serve_asgi(in_starlette())
    yield "fastapi", serve_asgi(in_fastapi())
    yield "django asgi", serve_asgi(ASGIHandler())
    yield "wsgi", serve_wsgi(in_wsgi())
    yield "flask", serve_wsgi(in_flask())
    yield "django", serve_wsgi(WSGIHandler())


if __name__ == "__main__":
    print(json.dumps(dict(mounts())), flush=True)
    threading.Event().wait()
