"""The web UI as a Flask blueprint, behind a callable."""

from __future__ import annotations

from functools import wraps

import pytest
from flask import Flask, abort, redirect, session

from offsider.flask import pages

POST = {"sec-fetch-site": "same-origin"}


def login_required(view):
    @wraps(view)
    def wrapped():
        return view() if "user" in session else redirect("/login")

    return wrapped


@login_required
def staff():
    return session["user"]


def client(config, user):
    app = Flask("shop")
    app.secret_key = "secret"
    app.testing = True
    app.register_blueprint(pages(user, config=config), url_prefix="/jobs")

    @app.get("/login/<name>")
    def login(name):
        session["user"] = name
        return name

    return app.test_client()


def test_a_visitor_is_redirected_to_the_login_and_then_sees_the_pages(config):
    browser = client(config, staff)
    refused = browser.get("/jobs/fleet")
    assert (refused.status_code, refused.location) == (302, "/login")
    browser.get("/login/kim")
    page = browser.get("/jobs/fleet")
    assert page.status_code == 200
    assert 'href="/jobs/fleet"' in page.text
    script = page.text.partition('<script src="')[2].partition('"')[0]
    assert browser.get(script).status_code == 200
    assert 'href="/jobs/fleet"' in browser.get("/jobs", follow_redirects=True).text


def test_changes_are_forms_with_their_body(config):
    browser = client(config, lambda: "kim")
    path, form = "/jobs/fleet/processes/quiet", {"every": "yes", "confirmed": "yes"}
    moved = browser.post(path, data=form, headers=POST)
    assert (moved.status_code, moved.location) == (303, "/jobs/fleet/processes")
    assert "Path=/jobs;" in moved.headers["set-cookie"]
    assert browser.post(path, data=form, headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_names_beyond_ascii_and_the_path_of_a_proxy(config, raw_redis):
    raw_redis.sadd("queues", "größe")
    raw_redis.lpush("queue:größe", '{"class": "X", "args": [], "jid": "ab", "created_at": 1, "enqueued_at": 1}')
    page = client(config, lambda: "kim").get("/jobs/jobs?where=queue:größe", environ_overrides={"SCRIPT_NAME": "/api"})
    assert page.status_code == 200
    assert 'href="/api/jobs/fleet"' in page.text


def test_a_callable_may_abort(config):
    assert client(config, lambda: abort(404)).get("/jobs/").status_code == 404


@pytest.mark.parametrize(
    "prefix, path, script, links",
    [
        ("/jobs", "/jobs/fleet/", "", "/jobs/fleet"),
        ("/<tenant>/jobs", "/acme/jobs/fleet", "", "/acme/jobs/fleet"),
        ("/jobs", "/jobs/fleet", "/api/", "/api/jobs/fleet"),
        ("/j bs", "/j%20bs/fleet", "", "/j%20bs/fleet"),
        (None, "/fleet", "", "/fleet"),
    ],
)
def test_the_pages_are_served_below_any_prefix(config, prefix, path, script, links):
    app = Flask("shop")
    app.register_blueprint(pages(lambda: "kim", config=config), url_prefix=prefix)
    page = app.test_client().get(path, environ_overrides={"SCRIPT_NAME": script})
    assert (page.status_code, f'href="{links}"' in page.text) == (200, True)
