"""The errors of a push from a template are those of any other push."""

import pytest

from offsider import job
from offsider.client import Client
from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.jobs import registry

with registry.isolated():

    @job(name="usual")
    def usual(number: int) -> None: ...


READONLY = RedisRefused("READONLY no", code="READONLY")


@pytest.fixture
def client(config, raw_redis, tag):
    """A client whose pushes are single ones: the first of each minute also writes the registry of clients."""
    client = Client(config)
    usual.via(client).enqueue(0)
    raw_redis.delete(f"{tag}queue:default")
    yield client
    client.close()


@pytest.fixture
def refused(client, monkeypatch):
    """The first round trip is refused by role."""
    monkeypatch.setattr(client.redis, "exchange_packed", lambda *_: [READONLY, READONLY])


def test_a_refusal_is_raised(client, raw_redis, tag):
    raw_redis.set(f"{tag}queue:default", "a string")
    with pytest.raises(RedisRefused, match=r"WRONGTYPE|wrong kind"):
        usual.via(client).enqueue(1)


def test_a_job_whose_queue_cannot_be_listed_is_stored_once(client, caplog, raw_redis, tag):
    raw_redis.delete(f"{tag}queues")
    raw_redis.set(f"{tag}queues", "a string")
    assert usual.via(client).enqueue(1)
    assert raw_redis.llen(f"{tag}queue:default") == 1
    assert "could not be added to the set of queues" in caplog.text


def test_a_refusal_by_role_is_sent_again_once(client, refused, raw_redis, tag):
    assert usual.via(client).enqueue(1)
    assert raw_redis.llen(f"{tag}queue:default") == 1


def test_a_failure_of_the_second_round_trip_is_raised(client, refused, monkeypatch):
    def gone(*_args, **_options):
        raise RedisUnavailable("gone", ambiguous=True)

    monkeypatch.setattr(client.redis, "pipeline", gone)
    with pytest.raises(RedisUnavailable, match="gone"):
        usual.via(client).enqueue(1)
