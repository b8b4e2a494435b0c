from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import ANY

import pytest

from offsider import Client, InvalidArguments, InvalidOptions, Job, job
from offsider.testing import assert_enqueued, assert_not_enqueued, fake


@pytest.fixture(autouse=True)
def enqueued():
    with fake() as recorder:
        yield recorder


@pytest.fixture
def resize():
    @job(name="resize")
    def resize(path: str, width: int = 100, *, smooth: bool = False) -> None: ...

    return resize


def test_a_job_with_any_arguments_or_with_these(resize):
    resize.enqueue("a.png")
    resize.enqueue("b.png", width=200, smooth=True)
    assert assert_enqueued(resize).args == ["a.png"]
    assert assert_enqueued(resize, "b.png", 200, smooth=True).args == ["b.png", 200]
    assert assert_enqueued(resize, path="b.png", width=200, smooth=True).kwargs == {"smooth": True}
    assert assert_enqueued(resize.call("a.png")).args == ["a.png"]
    assert assert_enqueued(resize, ANY, ANY, smooth=ANY).args == ["b.png", 200]
    assert_not_enqueued(resize, "c.png")


def test_a_job_class_and_a_job_that_lives_elsewhere(config):
    class Hard(Job, name="Hard"):
        def perform(self, number: int) -> None: ...

    Hard.enqueue(1)
    Client(config).push({"class": "RubyJob", "args": [1, "x"]})
    assert_enqueued(Hard, 1)
    assert_enqueued("RubyJob", 1, "x")
    assert_not_enqueued("RubyJob", 1)
    assert_not_enqueued("Soft")


def test_the_queue_and_other_options(resize):
    resize.using(queue="low", retry=5, tags=["a", "b"]).enqueue("a.png")
    assert_enqueued(resize, queue="low")
    assert_enqueued(resize.using(queue="low", retry=5), "a.png")
    assert_enqueued(resize.using(tags=("a", "b")))
    assert_not_enqueued(resize, queue="default")
    assert_not_enqueued(resize.using(retry=6))


def test_parameters_named_like_options_are_passed_in_a_call():
    @job(name="odd")
    def odd(queue: str, count: int) -> None: ...

    odd.enqueue("a", 1)
    assert_enqueued(odd.call(queue="a", count=1), queue="default", count=1)


def test_the_due_time_is_matched(resize):
    when = datetime(2050, 1, 1, tzinfo=UTC)
    resize.enqueue_in(3600, "in")
    resize.enqueue_at(when, "at")
    resize.enqueue("now")
    assert assert_enqueued(resize, in_=timedelta(hours=1)).args == ["in"]
    assert assert_enqueued(resize, in_=3600.5).args == ["in"]
    assert assert_enqueued(resize, at=when).args == ["at"]
    assert assert_enqueued(resize, at=when.timestamp() + 0.5).args == ["at"]
    assert assert_enqueued(resize, in_=0).args == ["now"]
    assert_not_enqueued(resize, in_=3598)
    assert_not_enqueued(resize, at=when + timedelta(seconds=2))
    assert_not_enqueued(resize, "now", at=when)


def test_how_many(resize):
    resize.enqueue("a.png")
    resize.enqueue("a.png")
    assert_enqueued(resize, "a.png", count=2)
    with pytest.raises(AssertionError, match=r"^expected 1 job, found 2: resize\('a.png'\)\n"):
        assert_enqueued(resize, "a.png", count=1)
    with pytest.raises(ValueError, match="for no job use assert_not_enqueued"):
        assert_enqueued(resize, count=0)


def test_a_failure_lists_enqueued_jobs_and_the_nearest_match(resize):
    resize.using(queue="low").enqueue("a.png", 200)
    resize.enqueue_in(60, "b.png")
    with pytest.raises(AssertionError) as raised:
        assert_enqueued(resize, "a.png", 300, smooth=True)
    first, count, one, two, nearest = str(raised.value).splitlines()
    assert first == "not enqueued: resize('a.png', 300, smooth=True)"
    assert count == "Enqueued, oldest first (2 jobs):"
    assert one == "  1. resize('a.png', 200) in queue low"
    assert two.startswith("  2. resize('b.png') in queue default, due at 20")
    assert two.endswith("UTC (in 60 s)")
    assert nearest == "Nearest is 1: width is 200, not 300; smooth is missing, not True."


def test_a_job_that_should_not_be_there(resize):
    resize.enqueue("a.png")
    with pytest.raises(AssertionError) as raised:
        assert_not_enqueued(resize)
    assert str(raised.value).splitlines() == [
        "expected no such job, but it was enqueued 1 time: resize(...)",
        "Enqueued, oldest first (1 job):",
        "  1. resize('a.png') in queue default",
    ]


def test_a_recorder_can_be_asked_after_its_block(resize):
    with fake() as earlier:
        resize.enqueue("a.png")
    earlier.assert_enqueued(resize, "a.png", count=1)
    earlier.assert_not_enqueued(resize, "b.png")
    assert_not_enqueued(resize)


def test_an_assertion_that_can_never_pass_raises(resize):
    with pytest.raises(InvalidArguments, match="too many positional arguments"):
        assert_enqueued(resize, 1, 2, 3)
    with pytest.raises(InvalidOptions, match="has no time zone"):
        assert_enqueued(resize, at=datetime(2050, 1, 1))  # noqa: DTZ001 - this is it
    with pytest.raises(TypeError, match="the arguments are in the call already"):
        assert_enqueued(resize.call("a"), "b")
    with pytest.raises(TypeError, match="expected a job function"):
        assert_not_enqueued(len)
