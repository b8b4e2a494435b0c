"""Jobs are found again by their keys, though queues move on."""

from __future__ import annotations

import pytest

from offsider.inspector import Queue
from offsider.screens.job_lookup import find, jid_of
from offsider.storage.cluster import DEFAULT_PREFIX
from tests.redis.web.stored import jid, job, push
from tests.waiting import wait_for

HELD = f"{DEFAULT_PREFIX}offsider:list"


@pytest.fixture
def mail(config, raw_redis):
    """A queue of three hundred jobs; the first runs next."""
    push(raw_redis, "mail", *(job(number) for number in range(300)))
    return Queue("mail", config)


@pytest.mark.parametrize("number", [0, 99, 250, 299])
def test_a_job_of_a_queue_is_found_by_its_position_and_id(mail, number):
    found = mail.entry(f"{number}|{jid(number)}")
    assert (found.jid, found.position, mail.key_of(found)) == (jid(number), number, f"{number}|{jid(number)}")


@pytest.mark.parametrize("taken", [1, 40, 100, 180])
def test_a_job_is_found_after_workers_took_jobs_before_it(mail, raw_redis, taken):
    raw_redis.rpop("queue:mail", taken)
    found = wait_for(lambda: mail.entry(f"250|{jid(250)}"))
    assert (found.jid, found.position) == (jid(250), 250 - taken)


def test_a_job_of_a_queue_is_found_by_its_id_alone(mail):
    assert wait_for(lambda: mail.entry(jid(270))).position == 270


@pytest.mark.parametrize("key", ["", "|", "5|", "x|y", "-1|x", "99999999999999999999|x", "5|nothing", "٣|x"])
def test_an_unknown_key_finds_nothing(config, mail, key):
    assert mail.entry(key) is None
    assert find(config, "retry", key) is None
    assert find(config, "busy", key) is None
    assert find(config, "quarantine", key) is None
    assert find(config, "elsewhere", key) is None


@pytest.mark.parametrize("key", [f"7|{jid(7)}", f"20|{jid(7)}", jid(7)])
def test_a_held_job_is_found_by_its_position_and_id(config, raw_redis, key):
    raw_redis.sadd("offsider:places", HELD)
    raw_redis.lpush(HELD, *(job(number) for number in range(30)))
    found = find(config, f"held:{HELD}", key)
    assert (found.where, found.key, found.record.jid) == (f"held:{HELD}", f"7|{jid(7)}", jid(7))
    assert find(config, f"held:{HELD}", "3|nothing") is find(config, "held:elsewhere", "|") is None


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
