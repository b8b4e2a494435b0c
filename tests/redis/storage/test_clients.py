"""Clients that push show themselves for a while."""

from offsider.storage import clients
from offsider.storage.clients import LIFE_SECONDS, SeenClient, note_commands, seen

GUNICORN = SeenClient("web-1", "gunicorn", "abc")
CRON = SeenClient("fe80::1", "cron.py", "none")


def note(pool, client, now):
    pool.pipeline(note_commands(pool.keys, client, now))


def test_nobody_has_pushed_yet(pool):
    assert seen(pool) == []


def test_each_is_seen_once_however_often_it_tells(pool, raw_redis):
    now = raw_redis.time()[0]
    for _ in range(3):
        note(pool, GUNICORN, now)
    note(pool, CRON, now)
    assert seen(pool) == [CRON, GUNICORN]


def test_who_is_silent_is_forgotten(pool, raw_redis):
    now = raw_redis.time()[0]
    note(pool, GUNICORN, now - LIFE_SECONDS - 10)
    note(pool, CRON, now)
    assert seen(pool) == [CRON]
    assert 0 < raw_redis.ttl("offsider:clients") <= LIFE_SECONDS


def test_names_do_not_pile_up(pool, raw_redis):
    now = raw_redis.time()[0]
    note(pool, GUNICORN, now - clients._KEPT_SECONDS - 10)
    note(pool, CRON, now)
    assert raw_redis.zcard("offsider:clients") == 1


def test_a_colon_in_a_role_and_odd_bytes_hide_nobody(pool, raw_redis):
    now = raw_redis.time()[0]
    note(pool, SeenClient("web-1", "a:b", "abc"), now)
    raw_redis.zadd("offsider:clients", {b"\xff:role:abc": now})
    assert seen(pool) == [SeenClient("web-1", "a_b", "abc"), SeenClient("�", "role", "abc")]
