"""The hierarchy of errors: what an ``except`` catches, and the content of messages."""

import pickle
from datetime import timedelta

import pytest

from offsider.core import errors
from offsider.core.errors import (
    NotReplicated,
    OffsiderError,
    PayloadTooLarge,
    RedisRefused,
    Reschedule,
    Shutdown,
    TooManyReschedules,
    UnknownJob,
)


def test_every_error_is_an_offsider_error_but_the_shutdown():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert len(kinds) > 15
    assert [kind for kind in kinds if not issubclass(kind, OffsiderError)] == [Shutdown]
    assert not issubclass(Shutdown, Exception)


def test_the_tree_in_the_docstring_names_every_error():
    kinds = [
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
    ]
    assert [name for name in kinds if name not in (errors.__doc__ or "")] == []


@pytest.mark.parametrize("seconds, expected", [(30, 30.0), (0, 0.0), (timedelta(minutes=5), 300.0)])
def test_reschedule_takes_seconds_or_a_timedelta(seconds, expected):
    assert Reschedule(seconds).seconds == expected


@pytest.mark.parametrize(
    "seconds", [-1, float("nan"), float("inf"), 1e300, 10**400, timedelta(seconds=-1), timedelta.max]
)
def test_reschedule_refuses_impossible_delays(seconds):
    with pytest.raises(ValueError, match="Reschedule expects"):
        Reschedule(seconds)


def test_reschedule_can_cross_processes():
    crossed = pickle.loads(pickle.dumps(Reschedule(5, reason="the bank is closed", limit=3)))
    assert (crossed.seconds, crossed.reason, crossed.limit) == (5.0, "the bank is closed", 3)
    assert str(crossed) == "rescheduled in 5 s: the bank is closed"


def test_reschedule_has_a_limit_by_default():
    assert Reschedule(5).limit == 1_000
    assert Reschedule(5, limit=None).limit is None


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
def test_reschedule_refuses_impossible_limits(limit):
    with pytest.raises(ValueError, match="a limit of at least 1, or None"):
        Reschedule(5, limit=limit)


def test_too_many_reschedules_can_cross_processes():
    crossed = pickle.loads(pickle.dumps(TooManyReschedules(1000)))
    assert crossed.count == 1000
    assert str(crossed).startswith("the job reached its limit of 1,000 reschedules")


def test_messages_name_the_relevant_values():
    assert "only 1 of 2 replicas confirmed it" in str(NotReplicated("abc", wanted=2, reached=1))
    assert "'HardJob'" in str(UnknownJob("HardJob"))
    assert RedisRefused("WRONGTYPE Operation against").code == "WRONGTYPE"


def test_payload_too_large_names_the_job_the_sizes_and_the_next_step_and_can_be_pickled():
    error = pickle.loads(pickle.dumps(PayloadTooLarge("app.Export", 6_000_000, 5_000_000)))
    assert (error.name, error.size_bytes, error.limit_bytes) == ("app.Export", 6_000_000, 5_000_000)
    for part in ("app.Export", "6,000,000 bytes", "over client.payload_limit_bytes (5,000,000)", "big_payload=True"):
        assert part in str(error)
