"""A test that asks for make_client runs twice: with the blocking client and with the other."""

import pytest

from offsider.client import Client
from tests.redis.client.clients import Awaited


@pytest.fixture(params=[Client, Awaited], ids=["sync", "async"])
def make_client(request):
    made = []

    def make(config):
        made.append(request.param(config))
        return made[-1]

    yield make
    for client in made:
        client.close()
