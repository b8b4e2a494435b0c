"""The tabs of the sorted sets, also with very many jobs."""

from __future__ import annotations

import json
import time

import pytest

from offsider.cli.top.tabs import View, set_tabs
from offsider.config.config import Config
from offsider.config.installation import Installation


@pytest.fixture
def tabs(redis_url):
    config = Config()
    config.redis.url = redis_url
    return {tab.title: tab for tab in set_tabs(Installation.of(config))}


def job(number: int, **more) -> str:
    payload = {"class": f"Job{number}", "args": [number], "queue": "default", "jid": f"{number:024}"}
    return json.dumps(payload | more)


def test_each_set_has_its_keys(tabs):
    assert {title: "".join(tab.actions) for title, tab in tabs.items()} == {
        "Scheduled": "DEK",
        "Retries": "DRK",
        "Dead": "DR",
    }


def test_only_reversible_actions_skip_the_confirmation(tabs):
    asks = {action.verb: action.asks for tab in tabs.values() for action in tab.actions.values()}
    assert asks == {"Delete": True, "Enqueue": False, "Kill": True, "Retry": False}


def test_a_failed_job_shows_its_tries_and_its_error(tabs, raw_redis):
    raw_redis.zadd("retry", {job(1, retry_count=2, error_class="Boom", error_message="no"): time.time() + 100})
    sheet = tabs["Retries"].read(View())
    assert sheet.columns == ("WHEN", "QUEUE", "JOB", "ERROR", "ARGUMENTS")
    [row] = sheet.rows
    assert row.cells[1:] == ("default", "Job1 (3)", "Boom: no", "1")
    assert row.cells[0].startswith("in 1 min 3")


def test_a_scheduled_job_has_no_error(tabs, raw_redis):
    raw_redis.zadd("schedule", {job(1): 9e9})
    assert tabs["Scheduled"].read(View()).columns == ("WHEN", "QUEUE", "JOB", "ARGUMENTS")


def test_invalid_bytes_have_rows_of_their_own(tabs, raw_redis):
    raw_redis.zadd("dead", {b"\xff\x1b": 1, b"other": 1})
    sheet = tabs["Dead"].read(View())
    assert len({row.key for row in sheet.rows}) == 2
    assert {row.cells[2] for row in sheet.rows} == {"malformed"}
    assert all(not tabs["Dead"].actions["R"].act(row.subject) for row in sheet.rows)


def test_a_filter_shows_its_progress(tabs, raw_redis):
    raw_redis.zadd("retry", {job(number): number for number in range(300)})
    found = tabs["Retries"].read(View(size=5, text="Job29"))
    assert found.total == 11
    assert [row.cells[2] for row in found.rows] == ["Job29", "Job290", "Job291", "Job292", "Job293"]
    assert found.note == ""
