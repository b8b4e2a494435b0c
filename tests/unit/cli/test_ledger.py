"""Lines are complete and read once; every job counts once; a job that is nowhere is lost."""

import pytest

from offsider.cli.demo.ledger import FILE, Ledger, Tally


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger(tmp_path)


@pytest.fixture
def tally(tmp_path, ledger) -> Tally:
    return Tally(tmp_path)


def test_a_line_is_read_once(ledger, tally):
    ledger.pushed("a")
    ledger.write("failed", "a", 2)
    tally.read()
    tally.read()

    assert (tally.known, tally.failed, tally.retried) == ({"a"}, 1, 1)


def test_an_incomplete_line_waits_for_the_next_read(tmp_path, tally):
    path = tmp_path / FILE
    path.write_text("done a 1 7\ndone b")
    tally.read()
    assert tally.done == {"a"}

    path.write_text("done a 1 7\ndone b 1 7\n")
    tally.read()
    assert tally.done == {"a", "b"}


def test_a_job_that_ran_without_a_recorded_push_counts_too(ledger, tally):
    # Its producer was killed between the reply of the server and the ledger.
    ledger.write("failed", "a", 1)
    tally.read()

    assert tally.account(dead=set(), stored=set()).lost == 1
    assert tally.account(dead=set(), stored={"a"}).left == 1


def test_done_is_checked_before_stored(ledger, tally):
    # The worker was killed after the job's end and before the acknowledgement.
    ledger.write("done", "a", 1)
    tally.read()

    account = tally.account(dead=set(), stored={"a"})

    assert (account.processed, account.left) == (1, 0)
