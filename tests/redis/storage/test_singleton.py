"""Work that one process at a time does for all."""

from offsider.storage.singleton import hold_lease, is_held
from tests.waiting import wait_for


def test_one_holder_has_the_turn_and_may_prolong_it(pool, raw_redis):
    assert hold_lease(pool, "history", "a", 30)
    assert not hold_lease(pool, "history", "b", 30)
    assert hold_lease(pool, "history", "a", 60)
    assert 30_000 < raw_redis.pttl("offsider:turn:history") <= 60_000


def test_each_work_has_a_turn_of_its_own(pool):
    assert hold_lease(pool, "history", "a", 30)
    assert hold_lease(pool, "something", "b", 30)


def test_the_turn_of_a_dead_process_passes_to_another(pool):
    assert hold_lease(pool, "history", "a", 0.05)
    wait_for(lambda: hold_lease(pool, "history", "b", 30))


def test_other_processes_see_whether_the_turn_is_taken(pool):
    assert not is_held(pool, "reaping")
    hold_lease(pool, "reaping", "a", 60.0)
    assert is_held(pool, "reaping")
