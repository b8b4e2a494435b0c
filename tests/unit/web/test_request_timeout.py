"""Connections that send no whole request are closed."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from offsider.web import request_timeout
from offsider.web.request_timeout import TimeoutProtocol

POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def answering(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def read_all(*parts):
    """The bytes received until the connection ends, for these parts of requests."""
    config = uvicorn.Config(answering, lifespan="off", log_config=None)
    config.load()
    state = ServerState()

    def protocol():
        return TimeoutProtocol(config=config, server_state=state, app_state={})

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for part in parts:
            writer.write(part)
            if part.endswith(b"\r\n\r\n") and part is GET:
                await reader.readuntil(b"ok")
        try:
            answer = await asyncio.wait_for(reader.read(), 30)
        except ConnectionResetError:  # it ended with a part of a request unread
            answer = b""
        writer.close()
    return answer


@pytest.mark.parametrize("parts", [(), (b"GET / HT",), (GET[:-2],), (POST,), (POST, b"123"), (GET, b"GET / HT")])
def test_an_incomplete_request_closes_its_connection(monkeypatch, parts):
    monkeypatch.setattr(request_timeout, "TIMEOUT_SECONDS", 0.1)
    assert asyncio.run(read_all(*parts)) == b""


def test_a_complete_request_gets_a_response(monkeypatch):
    monkeypatch.setattr(request_timeout, "TIMEOUT_SECONDS", 60)
    close = POST.replace(b"host", b"connection: close\r\nhost", 1)
    assert asyncio.run(read_all(close, b"12345")).endswith(b"ok")
