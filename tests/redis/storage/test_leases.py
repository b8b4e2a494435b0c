"""Work that one process at a time does for all, such as that of the leader, under the key of Sidekiq Enterprise."""

from __future__ import annotations

from offsider.storage.leases import acquire, hold_lease, release, renew
from tests.waiting import wait_for


def test_the_first_leads_and_stays_the_leader(pool, raw_redis):
    assert acquire(pool, pool.keys.leader, "a:1:x", 20) == 0
    assert raw_redis.get("dear-leader") == b"a:1:x"
    raw_redis.pexpire("dear-leader", 3000)
    assert acquire(pool, pool.keys.leader, "a:1:x", 20) == 0
    assert raw_redis.pttl("dear-leader") > 15_000


def test_other_candidates_get_the_time_of_their_next_attempt(pool, raw_redis):
    acquire(pool, pool.keys.leader, "a:1:x", 20)
    assert 15 < acquire(pool, pool.keys.leader, "b:1:x", 20) <= 20


def test_only_the_leader_steps_down(pool, raw_redis):
    acquire(pool, pool.keys.leader, "a:1:x", 20)
    assert not release(pool, pool.keys.leader, "b:1:x")
    assert release(pool, pool.keys.leader, "a:1:x")
    assert acquire(pool, pool.keys.leader, "b:1:x", 20) == 0


def test_one_holder_has_the_turn_and_may_prolong_it(pool, raw_redis):
    assert hold_lease(pool, "history", "a", 30)
    assert not hold_lease(pool, "history", "b", 30)
    assert hold_lease(pool, "history", "a", 60)
    assert 30_000 < raw_redis.pttl("offsider:turn:history") <= 60_000


def test_a_lease_without_an_end_is_taken_over(pool, raw_redis):
    raw_redis.set("offsider:turn:history", "another program")
    assert hold_lease(pool, "history", "a", 30)


def test_a_holder_renews_its_lease_until_it_is_lost(pool, raw_redis):
    key = pool.keys.lease("history")
    assert not renew(pool, key, "a", 30)
    hold_lease(pool, "history", "a", 30)
    assert renew(pool, key, "a", 600)
    assert raw_redis.pttl(key) > 500_000
    raw_redis.delete(key)
    hold_lease(pool, "history", "b", 30)
    assert not renew(pool, key, "a", 30)


def test_the_turn_of_a_dead_process_passes_to_another(pool):
    assert hold_lease(pool, "history", "a", 0.05)
    wait_for(lambda: hold_lease(pool, "history", "b", 30))
