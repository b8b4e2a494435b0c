"""The lifespan of an application that pushes jobs: FastAPI and Starlette."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from offsider import Installation, RedisRefused, job, testing
from offsider.fastapi import CallerId, lifespan
from offsider.inspector import Queue
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("default_config")


def connections(raw_redis):
    return {client["id"] for client in raw_redis.client_list()}


def test_an_application_pushes_from_its_lifespan_and_its_requests_and_closes_its_connections(config, raw_redis):
    @job
    def welcome(user_id: int) -> None: ...

    @asynccontextmanager
    async def own(app):
        await welcome.aenqueue(1)
        yield {"number": 2}

    app = FastAPI(lifespan=lifespan(own))
    app.add_middleware(CallerId)

    @app.post("/users/{user_id}")
    async def create(user_id: int) -> str | None:
        return await welcome.aenqueue(user_id)

    @app.get("/plain")
    def plain() -> str | None:
        return welcome.enqueue(3)

    before = connections(raw_redis)
    with TestClient(app) as client:
        assert client.app_state["number"] == 2
        assert client.post("/users/2").status_code == 200
        assert client.get("/plain").status_code == 200
        assert connections(raw_redis) - before
    wait_for(lambda: connections(raw_redis) <= before)
    assert [record.args for record in Queue("default", config)] == [[1], [2], [3]]
    callers = [record["meta.caller_id"] for record in Queue("default", config)]
    assert callers == [None, "POST /users/{user_id}", "GET /plain"]


def test_starlette_has_it_too(config, raw_redis):
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("ok"))], lifespan=lifespan(config=config))
    before = connections(raw_redis)
    with TestClient(app) as client:
        assert client.get("/").text == "ok"
        assert len(connections(raw_redis) - before) == 1
    wait_for(lambda: connections(raw_redis) <= before)


def test_an_unreachable_server_is_logged_and_the_application_starts(config, caplog):
    config.redis.url = "redis://127.0.0.1:1/0"
    with TestClient(FastAPI(lifespan=lifespan())) as client:
        assert client.get("/").status_code == 404
    (record,) = [each for each in caplog.records if each.name == "offsider"]
    assert record.getMessage().startswith("the application starts, but pushes of jobs will fail: ")
    assert "127.0.0.1:1" in record.getMessage()


def test_a_refused_login_ends_the_start(config, make_server):
    config.redis.url = make_server(port=0, requirepass="secret").url
    with pytest.raises(RedisRefused), TestClient(FastAPI(lifespan=lifespan())):
        pass


def test_in_a_test_mode_no_server_is_needed(config, caplog):
    config.redis.url = "redis://127.0.0.1:1/0"
    with testing.fake(), TestClient(FastAPI(lifespan=lifespan())):
        pass
    assert caplog.text == ""


def test_an_error_of_the_own_lifespan_closes_the_connections(config, raw_redis):
    @asynccontextmanager
    async def own(app):
        raise OSError("no database")
        yield

    before = connections(raw_redis)
    with pytest.raises(OSError, match="no database"), TestClient(FastAPI(lifespan=lifespan(own))):
        pass
    wait_for(lambda: connections(raw_redis) <= before)
    assert Installation.of(config).redis.call("PING") in {b"PONG", "PONG"}  # pools can be used again
