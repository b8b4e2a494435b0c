"""The pages of a server, and its configuration."""

from __future__ import annotations

import http.client
import json
from contextlib import closing

import pytest

from tests.process.web_process import WebProcess


class Pages:
    """The pages as JSON."""

    def __init__(self, web: WebProcess) -> None:
        self._port = web.port

    def __call__(self, path: str) -> dict:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as connection:
            connection.request("GET", path, headers={"accept": "application/json"})
            return json.loads(connection.getresponse().read())


@pytest.fixture
def page(web):
    return Pages(web)
