"""The web UI behind a dependency of FastAPI: sessions, tokens, redirects, overrides."""

from __future__ import annotations

from typing import Annotated

import jwt
import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.testclient import TestClient
from starlette.middleware.sessions import SessionMiddleware

from offsider import ConfigurationError
from offsider.fastapi import pages

SECRET = "a secret of at least thirty-two bytes"
POST = {"sec-fetch-site": "same-origin"}


def staff(request: Request) -> str:
    if "user" not in request.session:
        raise HTTPException(303, headers={"location": "/login"})
    return request.session["user"]


def from_token(credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    try:
        return jwt.decode(credentials.credentials, SECRET, algorithms=["HS256"])["sub"]
    except jwt.InvalidTokenError as error:
        raise HTTPException(401, headers={"www-authenticate": "Bearer"}) from error


def application(config, user):
    app = FastAPI()
    app.add_middleware(SessionMiddleware, secret_key=SECRET)
    app.include_router(pages(user, config=config), prefix="/jobs")

    @app.get("/login")
    def login(request: Request, name: str = "") -> None:
        request.session["user"] = name

    return app


@pytest.fixture
def client(config):
    with TestClient(application(config, staff), follow_redirects=False) as client:
        yield client


def test_a_visitor_is_redirected_to_the_login_and_then_sees_the_pages(client):
    refused = client.get("/jobs/fleet")
    assert (refused.status_code, refused.headers["location"]) == (303, "/login")
    client.get("/login?name=kim")
    page = client.get("/jobs/fleet")
    assert page.status_code == 200
    assert 'href="/jobs/fleet"' in page.text
    script = page.text.partition('<script src="')[2].partition('"')[0]
    assert client.get(script).status_code == 200


def test_the_root_of_the_router_is_the_dashboard(client):
    client.get("/login?name=kim")
    moved = client.get("/jobs")
    assert moved.headers["location"].endswith("/jobs/")
    assert 'href="/jobs/fleet"' in client.get("/jobs/").text


def test_changes_are_forms_with_their_body_and_the_user_is_logged(client, raw_redis, caplog):
    client.get("/login?name=kim")
    path, form = "/jobs/fleet/processes/quiet", {"every": "yes", "confirmed": "yes"}
    moved = client.post(path, data=form, headers=POST)
    assert (moved.status_code, moved.headers["location"]) == (303, "/jobs/fleet/processes")
    assert client.post(path, data=form, headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_a_name_with_a_slash_stays_one_segment(client, raw_redis):
    raw_redis.sadd("queues", "a/b")
    raw_redis.lpush("queue:a/b", '{"class": "X", "args": [], "jid": "ab", "created_at": 1, "enqueued_at": 1}')
    client.get("/login?name=kim")
    assert "a~2fb" in client.get("/jobs/queues/a%2Fb", follow_redirects=False).headers["location"]
    assert client.get("/jobs/queues/a/b").status_code == 404


def test_a_bearer_token(config):
    client = TestClient(application(config, from_token))
    assert client.get("/jobs/").status_code in {401, 403}
    assert client.get("/jobs/", headers={"authorization": "Bearer forged"}).status_code == 401
    token = jwt.encode({"sub": "kim"}, SECRET, "HS256")
    assert client.get("/jobs/", headers={"authorization": f"Bearer {token}"}).status_code == 200


@pytest.mark.parametrize("nobody", [None, ""])
def test_an_empty_user_name_is_refused(config, nobody):
    assert TestClient(application(config, lambda: nobody)).get("/jobs/").status_code in {401, 403}


def test_a_user_object_is_refused_so_that_it_is_not_logged(config):
    def user() -> object:
        return {"name": "kim", "password": "secret"}

    with pytest.raises(ConfigurationError, match="user must return the user's name or None, got dict"):
        TestClient(application(config, user)).get("/jobs/")


def test_an_override_of_the_application_applies(config):
    app = application(config, staff)
    app.dependency_overrides[staff] = lambda: "kim"
    assert TestClient(app).get("/jobs/").status_code == 200


@pytest.mark.parametrize("stripped", [True, False])
def test_links_below_a_proxy_contain_its_path(config, stripped):
    app = application(config, lambda: "kim")
    page = TestClient(app, root_path="/api").get("/jobs/fleet" if stripped else "/api/jobs/fleet")
    assert page.status_code == 200
    assert 'href="/api/jobs/fleet"' in page.text


def test_the_pages_are_not_in_the_schema(config):
    assert [*application(config, staff).openapi()["paths"]] == ["/login"]
