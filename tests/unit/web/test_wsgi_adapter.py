"""The pages through WSGI."""

from __future__ import annotations

import io

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.results import BadRequest
from offsider.web.wsgi_adapter import WsgiApp, request_of


def environ(**more):
    base = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/",
        "SCRIPT_NAME": "",
        "HTTP_HOST": "localhost",
        "wsgi.input": io.BytesIO(),
    }
    return base | more


def test_a_request_has_all_data_of_the_environ():
    given = environ(
        PATH_INFO="/ä/ b".encode().decode("latin-1"),
        SCRIPT_NAME="/jobs/",
        QUERY_STRING="a=1",
        CONTENT_TYPE="text/x",
        CONTENT_LENGTH="2",
        HTTP_X_USER="kim",
        REMOTE_ADDR="10.0.0.1",
    )
    request = request_of(given, b"xy")
    assert (request.root, request.path, request.query) == ("/jobs", "/%C3%A4/%20b", "a=1")
    assert (request.header("x-user"), request.header("content-type"), request.client) == ("kim", "text/x", "10.0.0.1")
    assert (request.header("content-length"), request.body, request.refusal) == ("2", b"xy", None)
    assert request.context is given


def test_a_request_without_a_path_or_a_body():
    refusal = BadRequest("late")
    request = request_of(environ(PATH_INFO=""), refusal)
    assert (request.path, request.body, request.refusal) == ("/", b"", refusal)


def test_a_response_has_status_line_and_headers():
    started = []
    app = WsgiApp(WebApp(WebOptions({"main": Installation.of(Config())})))
    parts = app(environ(PATH_INFO="/assets/none.css"), lambda status, headers: started.append((status, dict(headers))))
    assert b"".join(parts).startswith(b"Page not found")
    status, headers = started[0]
    assert status == "404 Not Found"
    assert headers["referrer-policy"] == "same-origin"


def test_an_async_hook_works_without_an_event_loop():
    async def authenticate(request):
        return None

    started = []
    app = WsgiApp(WebApp(WebOptions({"main": Installation.of(Config())}, authenticate=authenticate)))
    app(environ(), lambda status, headers: started.append(status))
    assert started == ["403 Forbidden"]
