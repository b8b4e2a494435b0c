"""The pages of a server, and its configuration."""

from __future__ import annotations

import http.client
import json
from contextlib import closing

import pytest

from offsider.config.config import Config
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
def config(url):
    config = Config()
    config.redis.url = url
    return config


@pytest.fixture
def page(url, tmp_path):
    web = WebProcess(tmp_path, url)
    try:
        yield Pages(web)
    finally:
        web.close()
