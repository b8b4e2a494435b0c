"""Lines are complete and read once; every job counts once; a job that is nowhere is lost."""

import threading

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


def test_a_push_that_middleware_stopped_is_not_recorded(ledger, tally):
    ledger.pushed(None)
    tally.read()

    assert not tally.known


def test_an_incomplete_line_waits_for_the_next_read(tmp_path, tally):
    path = tmp_path / FILE
    path.write_text("done a 1 7\ndone b")
    tally.read()
    assert tally.done == {"a"}

    path.write_text("done a 1 7\ndone b 1 7\n")
    tally.read()
    assert tally.done == {"a", "b"}


def test_threads_do_not_mix_their_lines(tmp_path, tally):
    def write(name: str) -> None:
        ledger = Ledger(tmp_path)
        for number in range(200):
            ledger.write("done", f"{name}-{number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.read()

    assert len(tally.done) == 800


def test_jobs_are_processed_dead_left_or_lost(ledger, tally):
    ledger.pushed("done", "dead", "waiting", "gone")
    ledger.write("done", "done", 1)
    ledger.write("failed", "dead", 1)
    ledger.write("failed", "dead", 2)
    tally.read()

    account = tally.account(dead={"dead"}, stored={"waiting"})

    assert str(account) == "processed 1 failed 2 retried 1 dead 1 left 1 lost 1"


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


def test_stored_jobs_without_a_line_are_dead_or_left(tally):
    account = tally.account(dead={"x"}, stored={"y"})

    assert (account.dead, account.left, account.lost) == (1, 1, 0)
