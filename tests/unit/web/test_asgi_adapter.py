"""The pages through ASGI."""

from __future__ import annotations

import asyncio

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.asgi_adapter import AsgiApp, request_of
from offsider.web.options import WebOptions


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
    request = request_of(scope(**given), b"")
    assert (request.root, request.path) == (root, path)


def test_a_request_has_all_data_of_the_scope():
    request = request_of(scope(query_string=b"a=1", scheme="https", client=["10.0.0.1", 5]), b"x")
    assert request.header("host") == "localhost"
    assert (request.query, request.scheme, request.client, request.body) == ("a=1", "https", "10.0.0.1", b"x")
    assert request_of(scope(client=None), b"").client == ""


def test_a_response_is_sent_with_its_headers():
    start, end = exchange(app(), scope("/assets/none.css"), body())
    assert start["status"] == 404
    assert dict(start["headers"])[b"x-content-type-options"] == b"nosniff"
    assert end["body"].startswith(b"Page not found")


def test_a_body_that_is_too_large_is_dropped():
    start, _ = exchange(app(), scope(method="POST"), body(b"x" * 40_000, more=True), body(b"x" * 40_000, more=True))
    assert start["status"] == 413


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
