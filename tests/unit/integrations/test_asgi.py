"""Jobs pushed by ASGI applications record their route."""

from __future__ import annotations

import asyncio

import fastapi
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute

from offsider import Client, Config, bind_context
from offsider.integrations.asgi import CallerId


@pytest.fixture
def client():
    return Client(Config())


def request(app, method, path, *, headers=(), kind="http"):
    """One request, without a server between."""

    async def receive():
        return {"type": "http.request" if kind == "http" else "websocket.disconnect", "body": b""}

    async def send(message):
        sent.append(message)

    sent = []
    scope = {
        "type": kind,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http" if kind == "http" else "ws",
        "server": ("testserver", 80),
        "root_path": "",
    } | ({"method": method} if kind == "http" else {"subprotocols": []})
    asyncio.run(app(scope, receive, send))
    return sent


def pushing(client):
    def endpoint(request):
        client.push({"class": "X", "args": []})
        return PlainTextResponse("ok")

    return endpoint


def starlette(client, *routes):
    app = Starlette(routes=[*routes])
    app.add_middleware(CallerId)
    return app


def test_a_route_of_starlette(client, stored, callers):
    app = starlette(client, Route("/orders/{order_id:int}", pushing(client), methods=["POST"]))
    request(app, "POST", "/orders/7")
    request(app, "POST", "/orders/8")
    assert callers() == ["POST /orders/{order_id:int}"] * 2
    first, second = (job.payload["correlation_id"] for job in stored)
    assert first != second


def test_a_mounted_route_with_parameters_on_both_sides(client, callers):
    inner = Route("/items/{item}", pushing(client))
    rest = Route("/files/{rest:path}", pushing(client))
    app = starlette(client, Mount("/shops/{shop}", routes=[inner, rest]))
    request(app, "GET", "/shops/acme/items/7")
    request(app, "GET", "/shops/acme/files/a/b/c")
    assert callers() == ["GET /shops/{shop}/items/{item}", "GET /shops/acme/files/{rest:path}"]


def test_a_mounted_application_without_a_route(client, callers):
    async def plain(scope, receive, send):
        client.push({"class": "X", "args": []})
        await PlainTextResponse("ok")(scope, receive, send)

    request(starlette(client, Mount("/legacy", app=plain)), "GET", "/legacy/anything/7")
    assert callers() == ["GET /legacy"]


def test_routes_of_fastapi_plain_and_included_sync_and_async(client, callers):
    app, router = fastapi.FastAPI(), fastapi.APIRouter()

    @router.post("/{order_id}")
    def order(order_id: int) -> None:
        client.push({"class": "X", "args": []})

    @app.get("/plain/{name}")
    async def plain(name: str) -> None:
        client.push({"class": "X", "args": []})

    app.include_router(router, prefix="/orders")
    app.add_middleware(CallerId)
    request(app, "POST", "/orders/7")
    request(app, "GET", "/plain/x")
    assert callers() == ["POST /orders/{order_id}", "GET /plain/{name}"]


def test_fields_bound_by_a_dependency_are_on_the_pushes_of_the_endpoint(client, stored):
    app = fastapi.FastAPI()

    def signed_in() -> None:
        bind_context(user="ann")

    @app.get("/", dependencies=[fastapi.Depends(signed_in)])
    def show() -> None:
        client.push({"class": "X", "args": []})

    app.add_middleware(CallerId)
    request(app, "GET", "/")
    assert stored[0].payload["meta.user"] == "ann"


def test_pushes_after_the_response_belong_to_the_request(client, stored, callers):
    def later():
        client.push({"class": "X", "args": []})

    async def endpoint(_request):
        await run_in_threadpool(later)
        return PlainTextResponse("ok", background=BackgroundTask(later))

    request(starlette(client, Route("/", endpoint)), "GET", "/", headers=[("X-Request-Id", "req-1")])
    assert callers() == ["GET /"] * 2
    assert [job.payload["correlation_id"] for job in stored] == ["req-1"] * 2


def test_a_web_socket(client, callers):
    async def endpoint(websocket):
        client.push({"class": "X", "args": []})
        await websocket.close()

    request(starlette(client, WebSocketRoute("/live/{room}", endpoint)), "", "/live/7", kind="websocket")
    assert callers() == ["WEBSOCKET /live/{room}"]


def test_an_application_without_routes_or_with_its_own(client, stored, callers):
    async def app(scope, receive, send):
        client.push({"class": "X", "args": []})

    request(CallerId(app), "GET", "/a/7")
    request(CallerId(app, caller=lambda scope: "a7"), "GET", "/a/7")
    request(CallerId(app, header="X-Trace"), "GET", "/a/7", headers=[("x-trace", "t1")])
    assert callers() == ["GET /a/7", "a7", "GET /a/7"]
    assert stored[2].payload["correlation_id"] == "t1"


def test_the_start_of_a_server_is_not_a_request():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(CallerId(app)({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]


def test_the_caller_is_unset_after_the_request(client, stored):
    request(starlette(client, Route("/", pushing(client))), "GET", "/")
    client.push({"class": "X", "args": []})
    assert "meta.caller_id" not in stored[1].payload
