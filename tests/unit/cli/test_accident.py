"""The accident of the demo: one worker is killed, and the jobs that it was running are followed."""

import signal

from offsider.cli.demo.accident import Accident
from offsider.cli.demo.account import Tally
from offsider.cli.demo.ledger import Line

DEAD, OTHER = 11, 22


class Victim:
    name = "worker 1"
    pid = DEAD
    exit_code = None

    def __init__(self):
        self.got = []

    def send(self, number):
        self.got.append(number)

    def wait(self):
        self.got.append("waited")
        return -9


def line(word, key, pid):
    return Line(word, key, "job", 1, 0.0, pid)


def test_in_the_middle_and_once():
    victim = Victim()
    accident = Accident(20.0)
    busy = Tally()
    busy.add([line("began", "a", DEAD)])
    assert not accident.due(9.9, [victim], busy)
    assert not accident.due(10.0, [victim], Tally()), "an idle worker has nothing to lose"
    assert accident.due(15.0, [victim], Tally())
    assert accident.due(10.0, [victim], busy)
    accident.happen(10.0, victim, Tally(), lambda: None)
    assert victim.got == [signal.SIGKILL, "waited"]
    assert not accident.due(11.0, [victim], busy)


def test_without_an_end_it_comes_after_a_while():
    assert Accident(None).due(20.0, [Victim()], Tally())


def test_a_worker_that_ended_by_itself_is_left_in_peace():
    victim = Victim()
    victim.exit_code = 1
    assert not Accident(20.0).due(16.0, [victim], Tally())


def test_what_the_worker_was_running_is_followed_until_the_last_has_ended_elsewhere():
    tally = Tally()
    tally.add([line("began", key, DEAD) for key in ("done before", "a", "b")] + [line("done", "done before", DEAD)])
    accident = Accident(20.0)
    told = accident.happen(10.0, Victim(), tally, lambda: tally.add([line("began", "c", DEAD)]))
    assert told == "worker 1 was killed with -9 while it ran 3 jobs"
    tally.add([line("began", key, OTHER) for key in ("a", "b", "c")])
    tally.add([line("done", "a", OTHER), line("failed", "b", OTHER)])
    assert accident.news(10.5, tally) is None
    assert "did not come back in time" in str(accident)
    tally.add([line("done", "c", OTHER)])
    assert accident.news(10.75, tally) == "its 3 jobs came back and ran elsewhere, 0.8 s later"
    assert accident.news(11.0, tally) is None
    assert str(accident) == "A worker was killed with -9 after 10 s with 3 jobs, back 0.8 s later."


def test_before_it_there_is_nothing_to_tell():
    accident = Accident(20.0)
    assert accident.news(1.0, Tally()) is None
    assert str(accident) == ""
