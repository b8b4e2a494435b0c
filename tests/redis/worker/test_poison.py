"""A poison pill in the dead set: with its reason, reported once (rule 6)."""

from __future__ import annotations

import logging
import pickle

import pytest

from offsider.core.compression import compress
from offsider.core.errors import PoisonPill
from offsider.core.malformed import unwrap
from offsider.core.payload import decode, encode
from offsider.storage import owners, strikes
from offsider.storage.owners import Lists
from offsider.storage.working import Owner, PrivateListEntry
from offsider.worker.alive.poison import PoisonPills

IDENTITIES = [f"host:{number}:dddddddddddd" for number in (1, 2, 3)]
LAST = IDENTITIES[-1]
JID = "a" * 24
PILL = {"class": "Pill", "args": [1], "jid": JID, "queue": "low", "dead": False, "interrupted_count": 2, "x": "kept"}


class Listeners:
    """Events and death handler calls received by the application."""

    def __init__(self, config) -> None:
        self.events: list = []
        self.deaths: list = []
        config.on("job_poisoned", self.events.append)
        config.death_handlers.append(lambda payload, error: self.deaths.append((payload, error)))


@pytest.fixture
def reported(parts) -> Listeners:
    return Listeners(parts.config)


@pytest.fixture
def dies(parts, raw_redis):
    """Let an owner die with one job; returns the job's entry."""

    def die(raw: bytes) -> PrivateListEntry:
        raw_redis.lpush(parts.redis.keys.working(LAST, "default", "low"), raw)
        assert owners.fence(parts.redis, Lists(LAST, {"default": ("low",)}))
        return PrivateListEntry(Owner(LAST, "default"), "low", raw)

    return die


def test_a_poison_pill_is_in_the_dead_set_with_the_reason_for_any_options(parts, raw_redis, dies, reported, caplog):
    entry = dies(encode(PILL))
    with caplog.at_level(logging.ERROR, "offsider"):
        assert PoisonPills(parts.config, parts.redis).bury(entry, IDENTITIES)
    (stored,) = raw_redis.zrange("dead", 0, -1)
    payload = decode(stored)
    message = payload.pop("error_message")
    failed_at = payload.pop("failed_at")
    assert payload == PILL | {"interrupted_count": 3, "error_class": "offsider.PoisonPill"}
    assert message == (
        "3 processes crashed while they had this job, the last one while it ran only this job: " + ", ".join(IDENTITIES)
    )
    assert failed_at == pytest.approx(parts.config.clock.now() * 1000, abs=60_000)
    assert f"job {JID} of queue low is a poison pill and was moved to the dead set: 3 processes crashed" in caplog.text


def test_every_listener_is_called_once(parts, raw_redis, dies, reported):
    entry = dies(encode(PILL))
    burial = PoisonPills(parts.config, parts.redis)
    assert burial.bury(entry, IDENTITIES)
    assert not burial.bury(entry, IDENTITIES)
    ((payload, error),) = reported.deaths
    assert (payload["jid"], payload["error_class"]) == (JID, "offsider.PoisonPill")
    assert isinstance(error, PoisonPill)
    assert error.identities == tuple(IDENTITIES)
    (news,) = reported.events
    assert (news.queue, news.identities) == ("low", tuple(IDENTITIES))
    assert [news.raw] == raw_redis.zrange("dead", 0, -1)


def test_details_of_an_earlier_failure_are_replaced(parts, raw_redis, dies, reported):
    failed = PILL | {"error_class": "ValueError", "error_message": "no", "error_backtrace": "x", "failed_at": 5}
    PoisonPills(parts.config, parts.redis).bury(dies(encode(failed)), IDENTITIES)
    payload = decode(raw_redis.zrange("dead", 0, -1)[0])
    assert payload["failed_at"] == 5
    assert payload["error_class"] == "offsider.PoisonPill"
    assert "error_backtrace" not in payload


def test_a_pill_without_a_jid_gets_one(parts, raw_redis, dies, reported):
    """Equal members of a sorted set collapse."""
    PoisonPills(parts.config, parts.redis).bury(dies(b'{"class":"Pill","args":[]}'), IDENTITIES)
    assert len(decode(raw_redis.zrange("dead", 0, -1)[0])["jid"]) == 24


def test_invalid_bytes_are_buried_in_a_wrapper(parts, raw_redis, dies, reported):
    assert PoisonPills(parts.config, parts.redis).bury(dies(b"no job"), IDENTITIES)
    (dead,) = raw_redis.zrange("dead", 0, -1)
    assert unwrap(dead) == b"no job"
    assert [news.raw for news in reported.events] == [dead]
    assert reported.deaths == [], "there is no payload to tell of"


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1)])
def test_a_broken_death_handler_does_not_stop_the_others(parts, dies, error):
    def broken(payload, told_error):
        raise error

    parts.config.death_handlers.append(broken)
    reported = Listeners(parts.config)
    PoisonPills(parts.config, parts.redis).bury(dies(encode(PILL)), IDENTITIES)
    assert len(reported.deaths) == 1
    assert [own for own, _ in parts.errors] == [error]


def test_the_strike_of_the_last_death_is_kept(parts, dies, reported):
    """Who retries a buried job by hand sees it buried again when it kills once more."""
    entry = dies(encode(PILL))
    PoisonPills(parts.config, parts.redis).bury(entry, IDENTITIES)
    assert strikes.died_with(parts.redis, entry.raw) == [LAST]


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(PoisonPill(IDENTITIES)))
    assert error.identities == tuple(IDENTITIES)
    assert str(error) == str(PoisonPill(IDENTITIES))


def test_a_pill_with_compressed_arguments_stays_so_and_death_handlers_see_them_plain(parts, raw_redis, dies, reported):
    entry = dies(encode(compress({**PILL, "args": ["x" * 1000]})))
    assert PoisonPills(parts.config, parts.redis).bury(entry, IDENTITIES)
    (stored,) = raw_redis.zrange("dead", 0, -1)
    assert decode(stored)["compressed"] is True
    ((payload, _),) = reported.deaths
    assert payload["args"] == ["x" * 1000]
