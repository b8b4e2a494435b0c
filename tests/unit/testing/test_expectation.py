from __future__ import annotations

from datetime import timedelta
from unittest.mock import ANY

import pytest

from offsider import job
from offsider.testing import expectation as failure, fake
from offsider.testing.enqueued_job import EnqueuedJob
from offsider.testing.expectation import differences, expect


def test_it_describes_the_expectation():
    @job(name="remind")
    def remind(user_id: int, *, loud: bool = False) -> None: ...

    assert str(expect(remind, (), {})) == "remind(...)"
    assert str(expect(remind, (42,), {"loud": True}, queue="low")) == "remind(42, loud=True), with queue 'low'"
    assert str(expect(remind.using(retry=3), (), {}, at=2e9)) == (
        "remind(...), with retry 3, due at 2033-05-18 03:33:20 UTC"
    )
    assert str(expect("Ruby", (1,), {}, in_=timedelta(minutes=1))) == "Ruby(1), due in 60 s"


def test_every_difference_is_listed(config):
    @job(name="remind")
    def remind(user_id: int) -> None: ...

    with fake() as enqueued:
        remind.enqueue(1)
        remind.using(retry=False).enqueue_in(5, 2)
    now, later = enqueued.jobs
    expected = expect(remind.using(retry=True), (2,), {}, queue="low", in_=60)
    assert list(expected.differences(now)) == [
        "user_id is 1, not 2",
        "queue is 'default', not 'low'",
        "it is due at once, not in 60 s",
    ]
    assert list(expected.differences(later)) == [
        "retry is False, not True",
        "queue is 'default', not 'low'",
        "it is due in 5 s, not in 60 s",
    ]
    assert list(expect("remind", (), {}, at=2e9).differences(now)) == [
        "it is due at once, not at 2033-05-18 03:33:20 UTC"
    ]


@pytest.mark.parametrize(
    "expected, actual",
    [
        (1, 1),
        (1, 1.0),
        ([1, {"a": [2]}], [1, {"a": [2]}]),
        ((1, 2), [1, 2]),
        (ANY, {"a": 1}),
        ({"a": [ANY, 2]}, {"a": ["x", 2]}),
        (True, True),
        (None, None),
    ],
)
def test_equal_values_have_no_differences(expected, actual):
    assert list(differences(expected, actual, "x")) == []


@pytest.mark.parametrize(
    "expected, actual, text",
    [
        (1, 2, "x is 2, not 1"),
        (1, True, "x is True, not 1"),
        (False, 0, "x is 0, not False"),
        (1, "1", "x is '1', not 1"),
        ([1], {"a": 1}, "x is {'a': 1}, not [1]"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "x['a']['b'][1] is 3, not 2"),
        ({"a": 1}, {}, "x['a'] is missing, not 1"),
        ({}, {"a": 1}, "x['a'] is 1, but nothing was expected there"),
        ([1, 2], [1], "x[1] is missing, not 2"),
    ],
)
def test_a_difference_names_its_path(expected, actual, text):
    assert list(differences(expected, actual, "x")) == [text]


def kept(name: str, *args: object) -> EnqueuedJob:
    return EnqueuedJob({"class": name, "args": list(args)}, "default", None, b"")


def test_jobs_that_ran_already_are_mentioned():
    assert "1 job ran already and is not counted." in failure.not_enough(expect("send", (), {}), [], None, 1)
    assert "2 jobs ran already and are not counted." in failure.not_enough(expect("send", (), {}), [], None, 2)


def test_a_name_that_is_similar_is_mentioned():
    text = failure.not_enough(expect("app.send_mail", (), {}), [kept("app.send_email"), kept("tick")], None, 0)
    assert text.endswith("No job of that name is enqueued; one called app.send_email is.")
    assert "No job" not in failure.not_enough(expect("app.send_mail", (), {}), [kept("tick")], None, 0)


def test_the_nearest_is_the_one_with_the_fewest_differences():
    jobs = [kept("send", 1, 2, 3), kept("tick"), kept("send", 1, 9, 3), kept("send", 8, 9, 3)]
    text = failure.not_enough(expect("send", (1, 9, 4), {}), jobs, None, 0)
    assert text.endswith("Nearest is 3: args[2] is 3, not 4.")


def test_a_long_list_is_cut():
    lines = failure.unexpected(expect("send", (), {}), [kept("send", number) for number in range(25)]).splitlines()
    assert lines[0] == "expected no such job, but it was enqueued 25 times: send(...)"
    assert lines[-2:] == ["  20. send(19) in queue default", "  ... and 5 more"]
