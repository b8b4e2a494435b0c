"""The hierarchy of errors: what an ``except`` catches, and the content of messages."""

import pickle
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from offsider.core import errors
from offsider.core.errors import (
    JobFailed,
    MalformedPayload,
    NotReplicated,
    OffsiderError,
    PayloadTooLarge,
    PoisonPill,
    RedisRefused,
    RedisUnavailable,
    Reschedule,
    RunInterrupted,
    Shutdown,
    TooManyReschedules,
    UnknownJob,
    Waiting,
)


def test_every_error_is_an_offsider_error_but_the_shutdown_and_in_the_tree_of_the_docstring():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert [kind for kind in kinds if kind.__name__ not in (errors.__doc__ or "")] == []
    assert [kind for kind in kinds if not issubclass(kind, OffsiderError)] == [Shutdown, RunInterrupted, Waiting]
    assert not issubclass(Shutdown, Exception)


@pytest.mark.parametrize(
    "seconds, expected",
    [(30, 30.0), (0, 0.0), (timedelta(minutes=5), 300.0), (Decimal("0.5"), 0.5), (Fraction(1, 2), 0.5)],
)
def test_reschedule_takes_seconds_or_a_timedelta(seconds, expected):
    assert Reschedule(seconds).seconds == expected


@pytest.mark.parametrize(
    "seconds",
    [-1, True, "5", float("nan"), float("inf"), Decimal("NaN"), 1e300, 10**400, timedelta(seconds=-1), timedelta.max],
)
def test_reschedule_refuses_impossible_delays(seconds):
    with pytest.raises(ValueError, match="the delay of Reschedule must be a number of seconds from 0"):
        Reschedule(seconds)


@pytest.mark.parametrize(
    "error",
    [
        Reschedule(5, reason="the bank is closed", limit=3),
        TooManyReschedules(1000),
        PayloadTooLarge("app.Export", 6_000_000, 5_000_000),
        PoisonPill(["a:1:x", "b:2:y"]),
        JobFailed("ab", "dead", "ValueError", "no"),
        NotReplicated("abc", wanted=2, reached=1),
        RedisUnavailable("timed out", ambiguous=True),
        MalformedPayload(b"x", "not JSON"),
        UnknownJob("HardJob"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_whole_after_pickling(error):
    crossed = pickle.loads(pickle.dumps(error))
    assert (type(crossed), str(crossed), vars(crossed)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
def test_reschedule_refuses_impossible_limits(limit):
    with pytest.raises(ValueError, match="a limit of at least 1, or None"):
        Reschedule(5, limit=limit)


def test_messages_name_the_relevant_values():
    assert str(Reschedule(5, reason="the bank is closed")) == "rescheduled in 5 s: the bank is closed"
    assert str(TooManyReschedules(1000)).startswith("the job reached its limit of 1,000 reschedules")
    assert "only 1 of 2 replicas confirmed it" in str(NotReplicated("abc", wanted=2, reached=1))
    assert "'HardJob'" in str(UnknownJob("HardJob"))
    assert "has 6,000,000 bytes, over client.payload_limit_bytes (5,000,000)" in str(
        PayloadTooLarge("app.Export", 6_000_000, 5_000_000)
    )
    assert RedisRefused("WRONGTYPE Operation against").code == "WRONGTYPE"
