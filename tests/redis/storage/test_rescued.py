"""Jobs that parents have requeued wait, within bounds, for a process that announces them."""

from __future__ import annotations

from offsider.core.payload import decode, encode
from offsider.storage import rescued
from offsider.storage.rescued import KEEP_SECONDS, MAX_BYTES, MAX_JOBS, Rescued

DEAD = "host:2:dddddddddddd"


def job(number: int = 1, raw: bytes = b"") -> Rescued:
    payload = {"class": "Hard", "args": [number], "jid": f"{number:024x}", "queue": "low"}
    return Rescued(raw or encode(payload), "low", DEAD, 2)


def test_each_job_is_returned_once_oldest_first(pool, raw_redis):
    rescued.note(pool, [job(1), job(2)])
    rescued.note(pool, [job(3)])
    assert rescued.take(pool, 2) == [job(1), job(2)]
    assert rescued.take(pool) == [job(3)]
    assert rescued.take(pool) == []
    assert not raw_redis.exists("offsider:rescued")


def test_a_limited_number_waits_for_a_limited_time(pool, raw_redis):
    rescued.note(pool, [job(number) for number in range(10_000)])
    assert raw_redis.llen("offsider:rescued") == MAX_JOBS
    assert 0 < raw_redis.ttl("offsider:rescued") <= KEEP_SECONDS
    assert rescued.take(pool, 1) == [job(9_000)]


def test_a_large_payload_is_kept_without_its_arguments(pool):
    large = {"class": "Hard", "args": ["x" * MAX_BYTES], "kwargs": {"y": 1}, "jid": "ab", "queue": "low"}
    rescued.note(pool, [job(raw=encode(large)), job(raw=b"x" * 2 * MAX_BYTES)])
    known, unknown = rescued.take(pool)
    assert decode(known.raw) == {"class": "Hard", "args": [], "jid": "ab", "queue": "low"}
    assert unknown.raw == b"x" * MAX_BYTES
