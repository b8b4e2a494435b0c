"""Lists of extensions are looked through as queues are."""

from __future__ import annotations

import pytest

from offsider.config.default import set_default_config
from offsider.inspector import HeldList, JobFilter
from offsider.storage.cluster import DEFAULT_PREFIX
from tests.redis.inspector.payloads import job

KEY = f"{DEFAULT_PREFIX}offsider:list"


@pytest.fixture
def held(config, raw_redis):
    raw_redis.sadd("offsider:places", KEY, "offsider:empty")
    raw_redis.lpush(KEY, *map(job, range(500)))
    return HeldList(KEY, config)


def test_lists_with_jobs_are_found_by_their_keys(config, held):
    assert HeldList.keys(config) == [KEY]
    assert (len(held), len(HeldList("elsewhere", config))) == (500, 0)


def test_a_page_begins_with_the_next_job(held):
    assert [(record.args[0], record.position) for record in held.page(1, 2)] == [(1, 1), (2, 2)]


@pytest.mark.parametrize("most", [None, 1, 7])
def test_a_scan_finds_every_job_that_fits_part_by_part(held, most):
    found, cursor, scanned = [], "", 0
    for _ in range(600):
        chunk = held.scan(JobFilter(text='"args":[4'), cursor, budget_ms=0, most=most)
        found += [record.args[0] for record in chunk.entries]
        scanned, cursor = scanned + chunk.scanned, chunk.cursor
        if not cursor:
            break
    assert sorted(found) == [number for number in range(500) if str(number).startswith("4")]
    assert scanned == 500


def test_the_default_server_is_this_processs(config, held):
    before = set_default_config(config)
    try:
        assert HeldList.keys() == [KEY]
        assert len(HeldList(KEY)) == 500
    finally:
        set_default_config(before)
