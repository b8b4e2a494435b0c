from __future__ import annotations

from datetime import timedelta

from offsider import job
from offsider.testing import fake
from offsider.testing.expectation import expect


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


def test_the_arguments_of_a_job_that_lives_elsewhere_are_called_by_position():
    with fake() as enqueued:
        from offsider import Client, Config

        Client(Config()).push({"class": "Ruby", "args": [1, {"a": 2}]})
    assert list(expect("Ruby", (1, {"a": 3}), {}).differences(enqueued.jobs[0])) == ["args[1]['a'] is 2, not 3"]
