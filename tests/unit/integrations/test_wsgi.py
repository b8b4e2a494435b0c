"""Jobs pushed by WSGI applications record their route."""

from __future__ import annotations

import flask
import pytest
from werkzeug.test import Client as Browser

from offsider import Client, Config
from offsider.integrations.wsgi import CallerId


@pytest.fixture
def push():
    client = Client(Config())
    return lambda: client.push({"class": "X", "args": []})


def test_a_route_of_flask(push, stored, callers):
    app = flask.Flask("shop")

    @app.post("/orders/<int:order_id>")
    def order(order_id):
        push()
        return "ok"

    app.wsgi_app = CallerId(app.wsgi_app)
    browser = app.test_client()
    assert browser.post("/orders/7", headers={"X-Request-ID": "req-1"}).text == "ok"
    assert browser.post("/orders/8").text == "ok"
    assert callers() == ["POST /orders/<int:order_id>"] * 2
    assert stored[0].payload["correlation_id"] == "req-1"
    assert len(stored[1].payload["correlation_id"]) == 32


def test_a_response_that_is_made_part_by_part(push, callers):
    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            push()
            yield b"one"
            push()
            yield b"two"
        finally:
            push()

    body = CallerId(app)({"REQUEST_METHOD": "GET", "PATH_INFO": "/stream"}, lambda *_: None)
    assert next(iter(body)) == b"one"
    push()
    body.close()
    assert callers() == ["GET /stream", None, "GET /stream"]


def test_an_application_without_routes_or_with_its_own(push, stored, callers):
    def app(environ, start_response):
        push()
        start_response("200 OK", [])
        return [b"ok"]

    Browser(CallerId(app)).get("/a/7")
    Browser(CallerId(app, caller=lambda environ: "a7")).get("/a/7")
    Browser(CallerId(app, header="X-Trace")).get("/a/7", headers={"X-Trace": "t1"})
    assert callers() == ["GET /a/7", "a7", "GET /a/7"]
    assert stored[2].payload["correlation_id"] == "t1"


def test_the_caller_is_unset_after_the_request(push, stored):
    Browser(CallerId(lambda environ, start_response: (start_response("200 OK", []), [b""])[1])).get("/")
    push()
    assert "meta.caller_id" not in stored[0].payload
