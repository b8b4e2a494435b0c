"""One worker is killed once, and its jobs are followed."""

import signal

import pytest

from offsider.cli.demo.ledger import FILE, Ledger, Tally
from offsider.cli.demo.loop import Kill

DEAD, OTHER = 11, 22


class Victim:
    pid = DEAD

    def __init__(self):
        self.received = []

    def send_signal(self, number):
        self.received.append(number)

    def wait(self):
        self.received.append("waited")


class Book:
    """A ledger with lines of several processes."""

    def __init__(self, folder):
        Ledger(folder)
        self.path = folder / FILE
        self.tally = Tally(folder)

    def add(self, word, jid, pid):
        with self.path.open("a") as file:
            file.write(f"{word} {jid} x 1 {pid}\n")
        return self


@pytest.fixture
def book(tmp_path) -> Book:
    return Book(tmp_path)


def test_a_busy_worker_is_killed_once(book):
    victim, kill = Victim(), Kill(10.0)
    assert not kill.is_due(15.0, victim, book.tally), "an idle worker would show nothing"
    book.add("began", "a", DEAD).tally.read()
    assert not kill.is_due(9.9, victim, book.tally)
    assert kill.is_due(10.0, victim, book.tally)

    kill.kill(10.0, victim, book.tally)

    assert victim.received == [signal.SIGKILL, "waited"]
    assert not kill.is_due(11.0, victim, book.tally)


def test_the_jobs_are_followed_until_the_last_one_runs_elsewhere(book):
    kill = Kill(10.0)
    book.add("began", "earlier", DEAD).add("done", "earlier", DEAD)
    book.add("began", "a", DEAD).add("began", "b", DEAD)

    assert kill.kill(10.0, Victim(), book.tally) == "worker 1 was killed with -9 while it ran 2 jobs"
    book.add("began", "a", OTHER).add("failed", "a", OTHER).tally.read()
    assert kill.recovery(10.5, book.tally) == ""
    assert "not recovered in time" in str(kill)
    book.add("began", "b", OTHER).tally.read()
    assert kill.recovery(10.75, book.tally) == "its 2 jobs ran again on other workers within 0.8 s"
    assert kill.recovery(11.0, book.tally) == ""
    assert str(kill) == "Worker 1 was killed with -9 after 10 s with 2 jobs, recovered in 0.8 s."


def test_without_a_kill_there_is_no_recovery(book):
    kill = Kill(10.0)
    assert kill.recovery(1.0, book.tally) == ""
    assert str(kill) == "No worker was killed: the demo ended too early."
