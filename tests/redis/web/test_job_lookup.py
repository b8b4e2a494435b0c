"""Jobs are found again by their keys, though queues move on."""

from __future__ import annotations

import pytest

from offsider.config.installation import Installation
from offsider.inspector import Queue, RetrySet
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.web.job_lookup import find, find_by_jid, find_in_list, jid_of, queue_key
from tests.redis.web.stored import WHEN, failed, jid, job, push
from tests.waiting import wait_for

HELD = f"{DEFAULT_PREFIX}offsider:list"


@pytest.fixture
def mail(config, raw_redis):
    """A queue of three hundred jobs; the first runs next."""
    push(raw_redis, "mail", *(job(number) for number in range(300)))
    return Queue("mail", config)


@pytest.mark.parametrize("number", [0, 99, 250, 299])
def test_a_job_of_a_queue_is_found_by_its_position_and_id(mail, number):
    found = find_in_list(mail, f"{number}|{jid(number)}")
    assert (found.jid, found.position, queue_key(found)) == (jid(number), number, f"{number}|{jid(number)}")


@pytest.mark.parametrize("taken", [1, 40, 100, 180])
def test_a_job_is_found_after_workers_took_jobs_before_it(mail, raw_redis, taken):
    raw_redis.rpop("queue:mail", taken)
    found = wait_for(lambda: find_in_list(mail, f"250|{jid(250)}"))
    assert (found.jid, found.position) == (jid(250), 250 - taken)


def test_a_job_of_a_queue_is_found_by_its_id_alone(mail):
    assert wait_for(lambda: find_in_list(mail, jid(270))).position == 270


@pytest.mark.parametrize("key", ["", "|", "5|", "x|y", "-1|x", "99999999999999999999|x", "5|nothing", "٣|x"])
def test_an_unknown_key_finds_nothing(config, mail, key):
    assert find_in_list(mail, key) is None
    assert find(config, "retry", key) is None
    assert find(config, "busy", key) is None
    assert find(config, "quarantine", key) is None
    assert find(config, "elsewhere", key) is None


def test_bytes_without_an_id_are_found_by_their_digest(config, raw_redis):
    push(raw_redis, "mail", b"no job", b"none either")
    queue = Queue("mail", config)
    keys = [queue_key(record) for record in queue.page(0, 2)]
    assert [find_in_list(queue, key).raw for key in keys] == [b"no job", b"none either"]


def test_a_job_of_a_set_is_found_by_its_score_and_id(config, raw_redis):
    raw_redis.zadd("retry", {failed(1): WHEN, failed(2): WHEN})
    for entry in RetrySet(config):
        found = find(config, "retry", entry.key)
        assert (found.where, found.key, found.record.raw) == ("retry", entry.key, entry.raw)


@pytest.mark.parametrize("key", [f"7|{jid(7)}", f"20|{jid(7)}", jid(7)])
def test_a_held_job_is_found_by_its_position_and_id(config, raw_redis, key):
    raw_redis.sadd("offsider:places", HELD)
    raw_redis.lpush(HELD, *(job(number) for number in range(30)))
    found = find(config, f"held:{HELD}", key)
    assert (found.where, found.key, found.record.jid) == (f"held:{HELD}", f"7|{jid(7)}", jid(7))
    assert find(config, f"held:{HELD}", "3|nothing") is find(config, "held:elsewhere", "|") is None


def test_a_job_is_found_by_its_id_anywhere(config, raw_redis, mail):
    raw_redis.zadd("dead", {failed(1_000): WHEN})
    place, _ = find_by_jid(Installation.of(config), jid(1_000), 10_000)
    assert place.where == "dead"
    place, _ = find_by_jid(Installation.of(config), jid(200), 10_000)
    assert (place.where, place.record.position) == ("queue:mail", 200)
    assert find_by_jid(Installation.of(config), "nothing", 10_000)[0] is None


@pytest.mark.parametrize(
    "where,key,expected",
    [
        ("retry", "1.5|abc|0f0f", "abc"),
        ("retry", "1.5|abc", "abc"),
        ("dead", "abc", "abc"),
        ("queue:mail", "7|abc", "abc"),
        ("queue:mail", "abc", "abc"),
        ("busy", "abc", "abc"),
        ("retry", "1.5|a|c|0f0f", "a|c"),
    ],
)
def test_the_id_is_extracted_from_a_key(where, key, expected):
    assert jid_of(where, key) == expected
