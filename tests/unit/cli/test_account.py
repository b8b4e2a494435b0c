"""Every job is counted once, and a job that is nowhere is lost."""

from offsider.cli.demo.account import Tally
from offsider.cli.demo.ledger import Line


def line(word: str, key: str, attempt: int = 1) -> Line:
    return Line(word, key, "some_job", attempt, 1.0)


def test_jobs_are_processed_dead_left_or_lost():
    tally = Tally()
    tally.add([line("pushed", key, 0) for key in ("done", "dead", "waiting", "gone")])
    tally.add([line("done", "done"), line("failed", "dead"), line("failed", "dead", 2)])

    account = tally.settle(dead={"dead"}, stored={"waiting"})

    assert str(account) == "processed 1 failed 2 retried 1 dead 1 left 1 lost 1"
    assert account.jobs == 4


def test_a_job_that_ran_without_a_noted_push_counts_too():
    # Its producer was killed between the server's answer and the ledger.
    tally = Tally()
    tally.add([line("failed", "a")])

    assert tally.settle(dead=(), stored=()).lost == 1
    assert tally.settle(dead=(), stored={"a"}).left == 1


def test_done_comes_before_stored():
    # A job that ran to its end and then came back, because its worker was killed before it could say so.
    tally = Tally()
    tally.add([line("pushed", "a", 0), line("done", "a")])

    account = tally.settle(dead=(), stored={"a"})

    assert (account.processed, account.left) == (1, 0)


def test_a_second_run_is_told_and_counted_as_one_job():
    tally = Tally()
    tally.add([line("done", "a"), line("done", "a")])

    account = tally.settle(dead=(), stored=())

    assert (account.processed, account.twice) == (1, 1)


def test_jobs_that_the_ledger_does_not_know_are_left():
    # Pushed, but the producer was killed before it could note it.
    account = Tally().settle(dead={"x"}, stored={"y"})

    assert (account.dead, account.left, account.lost, account.jobs) == (1, 1, 0, 2)
