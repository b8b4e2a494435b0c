"""Large payloads at their first push: compressed, logged, refused."""

from __future__ import annotations

import pytest

from offsider import Job, job
from offsider.core.compression import SMALL_BYTES, decode_plain, is_compressed
from offsider.core.errors import InvalidArguments, InvalidOptions, PayloadTooLarge
from offsider.core.payload import decode
from offsider.runtime.events import LargePayload

BIG = "x" * 200_000


pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def hard():
    @job(name="HardJob")
    def hard(text: str, *, unit: str = "") -> None: ...

    return hard


@pytest.fixture
def news(config) -> list[LargePayload]:
    heard: list[LargePayload] = []
    config.on("large_payload", heard.append)
    return heard


@pytest.fixture
def compressing(config):
    config.client.large_payloads = "compress"


def push(client, declared, *args, **fields):
    return client.push({"class": declared, "args": list(args), **fields})


# ---------------------------------------------------------------------------------- track


def test_a_large_payload_is_logged_by_default_and_stored_unchanged(client, hard, stored, news, caplog):
    jid = push(client, hard, "x" * 1_000_001)
    push(client, hard, BIG)
    assert caplog.text.count(f"HardJob: the payload of job {jid} has 1000") == 1
    assert caplog.text.count("WARNING") == 1
    (record,) = caplog.records
    size = len(stored[0].raw)
    about = {"class": "HardJob", "jid": jid, "queue": "default", "correlation_id": jid}
    assert record.fields == {**about, "job_size_bytes": size}
    assert news == [LargePayload("HardJob", jid, "default", size, size)]
    assert decode(stored[0].raw)["args"] == ["x" * 1_000_001]


def test_a_job_allowed_to_be_large_is_logged_without_a_warning(client, stored, news, caplog):
    class Export(Job, name="Export", big_payload=True):
        def perform(self, text: str) -> None: ...

    push(client, Export, "x" * 1_000_001)
    assert caplog.text == ""
    assert [one.name for one in news] == ["Export"]
    assert "big_payload" not in stored[0].payload


# ---------------------------------------------------------------------------------- compress


@pytest.mark.usefixtures("compressing")
class TestCompressing:
    def test_large_arguments_are_compressed_and_restored(self, client, hard, stored, news, caplog):
        jid = push(client, hard, BIG, kwargs={"unit": "m"})
        push(client, hard, "x" * 90_000)
        packed, plain = stored
        assert is_compressed(decode(packed.raw))
        assert (decode_plain(packed.raw)["args"], decode_plain(packed.raw)["kwargs"]) == ([BIG], {"unit": "m"})
        assert len(packed.raw) < 2_000
        assert packed.payload["args"] == [BIG]
        assert not is_compressed(decode(plain.raw))
        ((reported),) = news
        assert (reported.jid, reported.stored_bytes) == (jid, len(packed.raw))
        assert reported.size_bytes > 200_000
        assert caplog.text == ""

    def test_bulk_pushes_compress_each_job_for_itself(self, client, hard, stored):
        client.push_bulk({"class": hard, "args": [["small"], [BIG]]})
        client.push_bulk({"class": hard, "args": [["small"], [BIG]], "at": 60})
        assert [is_compressed(decode(each.raw)) for each in stored] == [False, True, False, True]
        assert [decode_plain(each.raw)["args"] for each in stored] == [["small"], [BIG]] * 2

    def test_jobs_that_ruby_may_run_are_never_compressed(self, client, stored):
        @job(name="Shared", shared_with_ruby=True)
        def shared(text: str) -> None: ...

        push(client, shared, BIG)
        push(client, "Ruby::Job", BIG)
        client.push_bulk({"class": "Ruby::Job", "args": [[BIG]]})
        assert not any(is_compressed(decode(each.raw)) for each in stored)

    def test_arguments_that_do_not_shrink_stay_plain(self, client, hard, stored, monkeypatch):
        monkeypatch.setattr("offsider.client.payload_checks.COMPRESS_BYTES", SMALL_BYTES)
        digits = "".join(chr(0x4E00 + (n * 7919) % 20_000) for n in range(400))
        push(client, hard, digits)
        assert not is_compressed(decode(stored[0].raw))

    def test_client_middleware_sees_plain_arguments_at_the_push_and_at_each_move(self, client, config, hard, stored):
        seen = []

        def looks(push):
            seen.append((push.reason, push.payload["args"], "compressed" in push.payload))
            yield

        config.client_middleware.add(looks)
        push(client, hard, BIG)
        payload = decode(stored[0].raw)
        moved = client.reenqueue(payload, "retry")
        assert seen == [("push", [BIG], False), ("retry", [BIG], False)]
        assert is_compressed(decode(moved.raw))
        assert decode_plain(moved.raw)["args"] == [BIG]
        assert decode(moved.raw)["enqueued_at"] == moved.payload["enqueued_at"]

    def test_without_middleware_a_compressed_job_moves_unchanged(self, client, hard, stored):
        push(client, hard, BIG)
        payload = decode(stored[0].raw)
        moved = client.reenqueue(dict(payload), "schedule")
        assert decode(moved.raw)["args"] == payload["args"]
        assert is_compressed(decode(moved.raw))

    def test_an_unreadable_compressed_job_moves_unchanged(self, client, config):
        config.client_middleware.add(lambda push: (yield))
        bad = {"class": "X", "args": ["%"], "compressed": True, "original_job_size_bytes": 5}
        moved = client.reenqueue(bad, "schedule")
        assert decode(moved.raw)["args"] == ["%"]


# ---------------------------------------------------------------------------------- the limit


@pytest.mark.parametrize("mode", ["off", "track", "compress"])
def test_a_payload_over_the_limit_is_refused_with_the_next_step(client, config, stored, mode):
    config.client.large_payloads = mode
    config.client.payload_limit_bytes = 5_000
    push(client, "Ruby::Job", "x" * 4_000)
    with pytest.raises(PayloadTooLarge, match="Ruby::Job: the payload has") as caught:
        push(client, "Ruby::Job", "x" * 5_000)
    assert caught.value.limit_bytes == 5_000
    assert caught.value.size_bytes > 5_000
    with pytest.raises(PayloadTooLarge):
        client.push_bulk({"class": "Ruby::Job", "args": [["x"], ["x" * 5_000]]})
    assert len(stored) == 1


def test_the_limit_applies_to_the_stored_size(client, config, hard, stored):
    config.client.payload_limit_bytes = 50_000
    with pytest.raises(PayloadTooLarge):
        push(client, hard, BIG)
    config.client.large_payloads = "compress"
    push(client, hard, BIG)
    assert len(stored) == 1


def test_a_job_allowed_to_be_large_has_no_limit(client, config, stored):
    config.client.payload_limit_bytes = 5_000

    @job(name="Export", big_payload=True)
    def export(text: str) -> None: ...

    push(client, export, BIG)
    assert len(stored) == 1


def test_a_push_that_waits_for_a_commit_is_refused_at_once(client, config, hard, stored):
    waiting = []
    config.after_commit = waiting.append
    config.client.payload_limit_bytes = 5_000
    with pytest.raises(PayloadTooLarge):
        push(client, hard, BIG)
    with pytest.raises(PayloadTooLarge):
        client.push_bulk({"class": hard, "args": [["small"], [BIG]]})
    config.client.strict_args = "off"
    with pytest.raises(InvalidArguments, match="cannot be stored as JSON"):
        push(client, hard, object())
    push(client, hard, "small")
    assert len(waiting) == 1
    assert stored == []


def test_the_option_for_large_jobs_is_a_boolean_of_the_declaration(client, config):
    @job(name="Odd", big_payload="yes")
    def odd(text: str) -> None: ...

    @job(name="Plain")
    def plain(text: str) -> None: ...

    with pytest.raises(InvalidOptions, match="Odd: big_payload must be true or false, got 'yes'"):
        push(client, odd, "x")
    with pytest.raises(InvalidOptions, match="big_payload"):
        plain.via(client).using(big_payload=True).enqueue("x")
