"""The expiry time of a payload, and the stored form of the option."""

from __future__ import annotations

import pytest

from offsider.client import Client
from offsider.config.config import Config
from offsider.core.payload import decode, expires_at

NOW = 1_800_000_000.0
ITEM = {"class": "X", "args": []}


@pytest.mark.parametrize(
    "keys, expected",
    [
        ({}, None),
        ({"expires_in": None}, None),
        ({"expires_in": 60, "expiry": 1700.5}, 1700.5),
        ({"expires_in": 60, "created_at": 1000}, 61),
        ({"expires_in": 60, "created_at": 1_500_000_000.5}, 1_500_000_060.5),
        ({"expires_in": 60}, None),
    ],
    ids=["none", "null", "of a push", "of Ruby, milliseconds", "of Ruby, seconds", "of nobody"],
)
def test_when_a_job_expires(keys, expected):
    assert expires_at({**ITEM, **keys}) == expected


@pytest.fixture
def config():
    config = Config()
    config.clock = type("Clock", (), {"now": lambda _: NOW, "monotonic": lambda _: 0.0})()
    return config


def test_the_time_counts_from_the_push_or_from_the_due_time(config, stored):
    client = Client(config)
    client.push({**ITEM, "expires_in": 60})
    client.push({**ITEM, "expires_in": 60, "at": NOW + 1000})
    client.push_bulk({**ITEM, "args": [[1], [2]], "expires_in": 60})
    client.push(ITEM)
    payloads = [decode(one.raw) for one in stored]
    assert [one.get("expiry") for one in payloads] == [NOW + 60, NOW + 1060, NOW + 60, NOW + 60, None]
    assert [one.get("expires_in") for one in payloads] == [60, 60, 60, 60, None]


def test_a_move_to_the_queue_does_not_renew_it(config):
    stored = {**ITEM, "queue": "default", "jid": "j", "created_at": 1, "expires_in": 60, "expiry": NOW - 1}
    prepared = Client(config).reenqueue(stored, "retry")
    assert prepared.payload["expiry"] == NOW - 1
