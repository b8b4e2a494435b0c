"""Pushes return ids that know the server of their job."""

from __future__ import annotations

import asyncio

import pytest

from offsider import JobId
from offsider.client import Client

X = {"class": "X", "args": []}


class Server:
    def __init__(self, here):
        self.name = here.name

    def result(self, jid, timeout):
        return self.name


@pytest.fixture
def config(config, redis_url):
    config.add_server("bulk", url=redis_url)
    config.results = Server
    return config


def servers(jids):
    assert all(type(jid) is JobId for jid in jids)
    return [jid.result() for jid in jids]


def pushed(client, **more):
    return [client.push({**X, **more}), *client.push_bulk({**X, "args": [[1], [2]], **more})]


def test_of_both_clients(config):
    assert servers(pushed(Client(config))) == ["main"] * 3
    assert servers(pushed(Client(config), server="bulk")) == ["bulk"] * 3

    async def apushed(**more):
        client = Client(config)
        jids = [await client.apush({**X, **more}), *await client.apush_bulk({**X, "args": [[1], [2]], **more})]
        client.close()
        return jids

    assert servers(asyncio.run(apushed())) == ["main"] * 3
    assert servers(asyncio.run(apushed(server="bulk"))) == ["bulk"] * 3


def test_of_pushes_that_wait_for_a_commit(config):
    waiting = []
    config.after_commit = waiting.append
    assert servers(pushed(Client(config), server="bulk")) == ["bulk"] * 3
    assert len(waiting) == 2
