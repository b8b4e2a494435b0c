"""The pages through ASGI and WSGI."""

from __future__ import annotations

import asyncio
import io

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.asgi_adapter import AsgiApp, request_of as request_of_asgi
from offsider.web.page_request import WebOptions
from offsider.web.wsgi_adapter import WsgiApp, request_of as request_of_wsgi


def scope(path="/", **more):
    return {"type": "http", "method": "GET", "path": path, "headers": [(b"Host", b"localhost")], **more}


def exchange(app, given, *messages):
    """What the application sends."""
    waiting, sent = [*messages], []

    async def receive():
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(app(given, receive, send))
    return sent


def app(**options):
    return AsgiApp(WebApp(WebOptions({"main": Installation.of(Config())}, **options)))


def body(content=b"", *, more=False):
    return {"type": "http.request", "body": content, "more_body": more}


@pytest.mark.parametrize(
    "given,root,path",
    [
        ({"path": "/busy"}, "", "/busy"),
        ({"path": "/jobs/busy", "root_path": "/jobs"}, "/jobs", "/busy"),
        ({"path": "/jobs", "root_path": "/jobs"}, "/jobs", "/"),
        ({"path": "/busy", "root_path": "/jobs/"}, "/jobs", "/busy"),
        ({"path": "/jobs/busy", "root_path": "/api/jobs", "app_root_path": "/api"}, "/api/jobs", "/busy"),
        ({"path": "/jobs", "root_path": "/api/jobs", "app_root_path": "/api/"}, "/api/jobs", "/"),
        ({"path": "/queues/a", "root_path": "/x/queues"}, "/x/queues", "/queues/a"),
        ({"path": "/j%c3%b6bs/a", "root_path": "/jöbs", "raw_path": b"/j%c3%b6bs/a"}, "/j%C3%B6bs", "/a"),
        ({"path": "/jobsearch", "root_path": "/jobs"}, "/jobs", "/jobsearch"),
        ({"path": "/a b", "raw_path": b"/a%20b"}, "", "/a%20b"),
        ({"path": "/a b"}, "", "/a%20b"),
        ({"path": "/ä/x", "root_path": "/ä", "raw_path": b"/%C3%A4/x"}, "/%C3%A4", "/x"),
    ],
)
def test_the_mount_path_is_separated_from_the_path(given, root, path):
    request = request_of_asgi(scope(**given), b"")
    assert (request.root, request.path) == (root, path)


def test_a_request_has_all_data_of_the_scope():
    request = request_of_asgi(scope(query_string=b"a=1", scheme="https", client=["10.0.0.1", 5]), b"x")
    assert request.header("host") == "localhost"
    assert (request.query, request.scheme, request.client, request.body) == ("a=1", "https", "10.0.0.1", b"x")
    assert request_of_asgi(scope(client=None), b"").client == ""


def test_a_disconnected_client_causes_no_error():
    start, _ = exchange(app(), scope("/assets/none.css"), {"type": "http.disconnect"})
    assert start["status"] == 404


def test_an_async_hook_is_awaited_in_its_own_loop():
    async def authenticate(request):
        await asyncio.sleep(0)
        return "kim" if request.header("x-user") == "kim" else None

    given = scope("/assets/none.css")
    assert exchange(app(authenticate=authenticate), given, body())[0]["status"] == 403
    given["headers"] = [*given["headers"], (b"X-User", b"kim")]
    assert exchange(app(authenticate=authenticate), given, body())[0]["status"] == 404


def test_lifespan_and_websockets_are_handled():
    life = exchange(app(), {"type": "lifespan"}, {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
    assert [message["type"] for message in life] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    closed = exchange(app(), {"type": "websocket"}, {"type": "websocket.connect"})
    assert closed == [{"type": "websocket.close", "code": 1000}]


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
    request = request_of_wsgi(given, b"xy")
    assert (request.root, request.path, request.query) == ("/jobs", "/%C3%A4/%20b", "a=1")
    assert (request.header("x-user"), request.header("content-type"), request.client) == ("kim", "text/x", "10.0.0.1")
    assert (request.header("content-length"), request.body, request.refusal) == ("2", b"xy", None)
    assert request.context is given


def test_an_async_hook_works_without_an_event_loop():
    async def authenticate(request):
        return None

    started = []
    app = WsgiApp(WebApp(WebOptions({"main": Installation.of(Config())}, authenticate=authenticate)))
    app(environ(), lambda status, headers: started.append(status))
    assert started == ["403 Forbidden"]
