"""The pages mounted in the frameworks that people have, asked over the frameworks' own test clients."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from offsider.web import asgi, wsgi

POST = {"sec-fetch-site": "same-origin"}
QUIET, FORM = "/jobs/fleet/processes/quiet", {"every": "yes", "confirmed": "yes"}


def by_header(request):
    return request.header("x-user") or None


def ask_asgi(app, method, path, root_path="", **more):
    async def ask():
        transport = httpx.ASGITransport(app, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.example.com") as client:
            return await client.request(method, path, **more)

    return asyncio.run(ask())


def ask_wsgi(app, method, path, **more):
    with httpx.Client(transport=httpx.WSGITransport(app), base_url="http://shop.example.com") as client:
        return client.request(method, path, **more)


def in_starlette(config):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return ask_asgi, Starlette(routes=[Mount("/jobs", asgi(config, authenticate=by_header))])


def in_flask(config):
    from flask import Flask
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    app = Flask("shop")
    return ask_wsgi, DispatcherMiddleware(app.wsgi_app, {"/jobs": wsgi(config, authenticate=by_header)})


@pytest.fixture(params=[in_starlette, in_flask], ids=["starlette", "flask"])
def mounted(request, config):
    ask, app = request.param(config)

    def answer(method, path, **more):
        headers = {"x-user": "kim"} | more.pop("headers", {})
        return ask(app, method, path, headers=headers, **more)

    return answer


def test_every_link_and_redirect_is_below_the_mount_path(mounted):
    page = mounted("GET", "/jobs/fleet")
    assert page.status_code == 200
    assert 'href="/jobs/fleet"' in page.text
    assert 'action="/jobs/find"' in page.text
    script = page.text.partition('<script src="')[2].partition('"')[0]
    assert mounted("GET", script).status_code == 200
    moved = mounted("POST", QUIET, data=FORM, headers=POST)
    assert (moved.status_code, moved.headers["location"]) == (303, "/jobs/fleet/processes")
    assert "Path=/jobs;" in moved.headers["set-cookie"]


def test_names_with_special_characters_have_a_page(mounted, raw_redis):
    raw_redis.sadd("queues", "a/b ö")
    raw_redis.lpush("queue:a/b ö", b"{}")
    assert mounted("GET", "/jobs/queues/a~2fb~20~c3~b6").headers["location"].startswith("/jobs/jobs?where=queue%3Aa")


def test_authentication_and_csrf_protection_apply(mounted):
    assert mounted("GET", "/jobs/", headers={"x-user": ""}).status_code == 403
    assert mounted("POST", QUIET, data=FORM, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert mounted("POST", QUIET, data=FORM, headers={"origin": "http://evil.com"}).status_code == 403
    same = {"origin": "http://shop.example.com"}
    assert mounted("POST", QUIET, data=FORM, headers=same).status_code == 303


@pytest.mark.parametrize("path", ["/jobs/fleet", "/jobs/fleet/", "/api/jobs/fleet"])
def test_a_mount_in_an_application_with_a_root_path_of_its_own(config, path):
    _, app = in_starlette(config)
    page = ask_asgi(app, "GET", path, root_path="/api", headers={"x-user": "kim"})  # a proxy may remove it or not
    assert (page.status_code, 'href="/api/jobs/fleet"' in page.text) == (200, True)
