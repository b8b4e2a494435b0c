from __future__ import annotations

from offsider.testing import expectation as failure
from offsider.testing.enqueued_job import EnqueuedJob
from offsider.testing.expectation import expect


def kept(name: str, *args: object) -> EnqueuedJob:
    return EnqueuedJob({"class": name, "args": list(args)}, "default", None, b"")


def test_nothing_at_all():
    assert failure.not_enough(expect("send", (1,), {}), [], None, 0) == "not enqueued: send(1)\nNothing is enqueued."


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
    assert lines[0] == "enqueued 25 times, and should not be: send(...)"
    assert lines[-2:] == ["  20. send(19) in queue default", "  ... and 5 more"]


def test_a_wrong_number_is_not_explained_by_the_nearest():
    text = failure.not_enough(expect("send", (1,), {}), [kept("send", 1), kept("send", 2)], 2, 0)
    assert text.startswith("expected 2 jobs, found 1: send(1)")
    assert "Nearest" not in text
