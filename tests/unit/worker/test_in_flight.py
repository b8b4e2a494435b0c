"""What a fetcher holds is a multiset."""

from offsider.storage.working import Owner, PrivateListEntry
from offsider.worker.fetch.in_flight import InFlight
from offsider.worker.unit_of_work import UnitOfWork

OLD, NEW = Owner("host:1:old", "default"), Owner("host:1:new", "default")


def test_two_equal_payloads_in_flight_count_as_two():
    held = InFlight()
    entry = PrivateListEntry(NEW, "low", b"job")
    first, second = UnitOfWork("low", b"job", NEW), UnitOfWork("low", b"job", NEW)
    held.add([first, second])
    assert held.copies(entry) == 2
    held.remove([first])
    assert held.copies(entry) == 1
    held.remove([second])
    assert held.copies(entry) == 0
    assert held.of("host:1:new").total() == 0


def test_removing_twice_removes_once():
    """A job that was requeued while it ran is removed once more when its thread ends."""
    held = InFlight()
    first, second = UnitOfWork("low", b"job", NEW), UnitOfWork("low", b"job", NEW)
    held.add([first, second])
    held.remove([first])
    held.remove([first])
    assert held.copies(PrivateListEntry(NEW, "low", b"job")) == 1


def test_jobs_claimed_under_an_earlier_identity_count_for_it():
    held = InFlight()
    held.add([UnitOfWork("low", b"job", OLD), UnitOfWork("low", b"job", NEW), UnitOfWork("high", b"job", NEW)])
    assert held.of("host:1:old").total() == 1
    assert held.of("host:1:new") == {PrivateListEntry(NEW, "low", b"job"): 1, PrivateListEntry(NEW, "high", b"job"): 1}


def test_the_result_is_a_copy():
    held = InFlight()
    held.add([UnitOfWork("low", b"job", NEW)])
    held.of("host:1:new").clear()
    assert held.copies(PrivateListEntry(NEW, "low", b"job")) == 1
