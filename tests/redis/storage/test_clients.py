"""Clients that push show themselves for a while, by the server's clock."""

from offsider.storage.clients import LIFE_SECONDS, SeenClient, note_command, seen

GUNICORN = SeenClient("web-1", "gunicorn", "abc")
CRON = SeenClient("fe80::1", "cron.py", "none")


def note(pool, client):
    assert pool.pipeline([note_command(pool.keys, client)]) == [None]


def grow_older(raw_redis, name, seconds):
    raw_redis.zincrby("offsider:clients", -seconds, name)


def test_no_client_has_pushed_yet(pool):
    assert seen(pool) == []


def test_each_client_is_listed_once(pool):
    for _ in range(3):
        note(pool, GUNICORN)
    note(pool, CRON)
    assert seen(pool) == [CRON, GUNICORN]


def test_a_silent_client_is_no_longer_listed(pool, raw_redis):
    note(pool, GUNICORN)
    note(pool, CRON)
    grow_older(raw_redis, "web-1:gunicorn:abc", LIFE_SECONDS + 10)
    assert seen(pool) == [CRON]
    assert 0 < raw_redis.ttl("offsider:clients") <= LIFE_SECONDS


def test_names_do_not_pile_up(pool, raw_redis):
    note(pool, GUNICORN)
    grow_older(raw_redis, "web-1:gunicorn:abc", LIFE_SECONDS + 10)
    note(pool, CRON)
    assert raw_redis.zcard("offsider:clients") == 1


def test_odd_names_and_invalid_entries_hide_no_client(pool, raw_redis):
    now = raw_redis.time()[0]
    note(pool, SeenClient("web-1", "a:b", "abc"))
    raw_redis.zadd("offsider:clients", {b"\xff:role:abc": now, "junk": now})
    assert seen(pool) == [SeenClient("web-1", "a_b", "abc"), SeenClient("\N{REPLACEMENT CHARACTER}", "role", "abc")]
