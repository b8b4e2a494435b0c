"""Pushes return ids that know the server of their job."""

from __future__ import annotations

import asyncio

import pytest

from offsider import Config, JobId
from offsider.client import AsyncClient, Client
from offsider.config.installation import Installation
from offsider.testing import fake

X = {"class": "X", "args": []}


class Server:
    def __init__(self, here):
        self.name = here.name

    def result(self, jid, timeout):
        return self.name


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.add_server("bulk", url=redis_url)
    config.results = Server
    yield config
    Installation.of(config).close()


def servers(jids):
    assert all(type(jid) is JobId for jid in jids)
    return [jid.result() for jid in jids]


def pushed(client, **more):
    return [client.push({**X, **more}), *client.push_bulk({**X, "args": [[1], [2]], **more})]


def test_of_both_clients(config):
    assert servers(pushed(Client(config))) == ["main"] * 3
    assert servers(pushed(Client(config), server="bulk")) == ["bulk"] * 3

    async def apushed(**more):
        client = AsyncClient(config)
        jids = [await client.push({**X, **more}), *await client.push_bulk({**X, "args": [[1], [2]], **more})]
        await client.close()
        return jids

    assert servers(asyncio.run(apushed())) == ["main"] * 3
    assert servers(asyncio.run(apushed(server="bulk"))) == ["bulk"] * 3


def test_of_pushes_that_wait_for_a_commit(config):
    waiting = []
    config.after_commit = waiting.append
    assert servers(pushed(Client(config), server="bulk")) == ["bulk"] * 3
    assert len(waiting) == 2


def test_of_pushes_in_a_test_that_stores_nothing(config):
    with fake():
        assert servers(pushed(Client(config))) == ["main"] * 3
