"""Keys that should expire, and do not."""

from offsider.storage import keyspace

LIVE, DEAD, STUCK = "host:1:aaaaaaaaaaaa", "host:2:bbbbbbbbbbbb", "host:3:cccccccccccc"


def test_keys_that_never_expire_are_stuck(pool, raw_redis):
    raw_redis.set("offsider:sweep", LIVE)
    raw_redis.set(f"offsider:alive:{STUCK}", "1")
    raw_redis.set(f"offsider:alive:{LIVE}", "1", ex=60)
    raw_redis.set("process_cleanup", "1", ex=60)
    assert keyspace.stuck(pool, [LIVE, DEAD, STUCK]) == [pool.keys.sweep, pool.keys.alive(STUCK)]


def test_an_owner_with_a_recent_heartbeat_is_alive(pool, raw_redis):
    raw_redis.set(f"offsider:alive:{LIVE}", "1", ex=60)
    assert keyspace.living(pool, [LIVE, DEAD]) == {LIVE}
    assert keyspace.living(pool, []) == set()
