"""What a fetcher holds is a multiset."""

from offsider.storage.working import Entry, Owner
from offsider.worker.held import Held

OLD, NEW = Owner("host:1:old", "default"), Owner("host:1:new", "default")


def test_two_equal_payloads_in_flight_count_as_two():
    held = Held()
    entry = Entry(NEW, "low", b"job")
    held.add([entry, entry])
    assert held.copies(entry) == 2
    held.remove(entry)
    assert held.copies(entry) == 1
    held.remove(entry)
    assert held.copies(entry) == 0
    assert held.of("host:1:new").total() == 0


def test_what_was_claimed_under_an_earlier_identity_counts_for_that():
    held = Held()
    held.add([Entry(OLD, "low", b"job"), Entry(NEW, "low", b"job"), Entry(NEW, "high", b"job")])
    assert held.of("host:1:old").total() == 1
    assert held.of("host:1:new").total() == 2


def test_the_answer_is_a_copy():
    held = Held()
    entry = Entry(NEW, "low", b"job")
    held.add([entry])
    held.of("host:1:new").clear()
    assert held.copies(entry) == 1
