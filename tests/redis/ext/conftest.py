"""What tests of an extension want besides its configuration, which each folder makes as the fixture `config`."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request


@pytest.fixture
def make_config(redis_url):
    """Makes configurations with extensions, on the server of the test or another one, and closes them."""
    made = []

    def make_config(*extensions, url=redis_url):
        config = Config()
        config.redis.url = url
        config.worker.timeout_seconds = 5
        for extension in extensions:
            config.use(extension)
        made.append(config)
        return config

    yield make_config
    for config in made:
        Installation.of(config).close()


@pytest.fixture
def client(config):
    return Client(config)


@pytest.fixture
def redis(config):
    """The pool of the configuration."""
    return Installation.of(config).redis


@pytest.fixture
def ask(config):
    """Sends a request to the pages, as a browser or with another ``accept``."""
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def ask(path, query="", *, method="GET", accept="text/html"):
        headers = {"host": "localhost", "accept": accept, "sec-fetch-site": "same-origin"}
        return app.respond(Request(method, path, query=query, headers=headers))

    return ask
