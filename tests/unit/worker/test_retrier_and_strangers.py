"""Foreign payloads and misbehaving callbacks: the retrier still decides."""

import pytest

from offsider import job
from offsider.core.error_text import class_of
from offsider.core.payload import decode, encode
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.worker.disposition import Dead, Later
from offsider.worker.settle.retrier import Retrier

NOW_MS = 1_795_216_780_250


def context(declared=None, **extra) -> JobContext:
    payload = {"class": "HardJob", "args": [1], "jid": "a" * 24, "queue": "low", "retry": True} | extra
    raw = encode({key: value for key, value in payload.items() if value != "absent"})
    return JobContext(payload=decode(raw), queue="low", raw=raw, declared=declared)


@pytest.mark.parametrize("failed_at", ["yesterday", None, True, "absent"])
def test_a_first_failure_that_cannot_be_read_is_now(config, failed_at):
    """`retry_for` counts from it: without a beginning it would never end."""
    decision = Retrier(config).decide(context(retry_for=60, retry_count=5, failed_at=failed_at), ValueError())
    assert isinstance(decision, Later)
    assert decode(decision.payload)["failed_at"] == NOW_MS


def test_a_negative_count_does_no_harm(config):
    decision = Retrier(config).decide(context(retry_count=-7, failed_at=1), ValueError())
    assert isinstance(decision, Later)
    assert decode(decision.payload)["retry_count"] == 0


@pytest.mark.parametrize("hook", ["retry_in", "on_exhausted"])
def test_changes_of_a_callback_to_the_payload_are_not_stored(config, hook):
    """It need not be JSON, and would keep the outcome from being written."""

    def spoil(*given):
        (payload,) = (item for item in given if isinstance(item, dict))
        payload["object"] = object()

    @job(name="HardJob", **{hook: spoil})
    def hard_job(number: int) -> None: ...

    stored = context(registry.find("HardJob"), retry=0 if hook == "on_exhausted" else True)
    decision = Retrier(config).decide(stored, ValueError())
    assert isinstance(decision, Dead if hook == "on_exhausted" else Later)
    assert "object" not in decode(decision.payload)


def test_the_name_of_an_error_can_always_be_stored():
    odd = type("Odd", (Exception,), {"__module__": "m\ud800"})
    assert class_of(odd()) == "m?.Odd"
