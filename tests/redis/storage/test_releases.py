"""A release that was never seen, or that came back, is one deploy, whichever process reports it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from offsider.inspector import EventLog
from offsider.storage import execution_metrics, releases

NOW = 1_800_000_000.0


@pytest.fixture
def deploys(pool, config):
    """Let a process report its release; return the releases of all deploys in the log, the latest first."""

    def report(release: str, at: float, *, first: bool = True) -> list[tuple[str, str]]:
        releases.note(pool, release, f"host:{at}", NOW + at, first=first)
        return [(event.subject, event.fields.get("before", "")) for event in EventLog(config).read(kinds=["deploy"])]

    return report


def marks(pool) -> list[str]:
    since, until = (datetime.fromtimestamp(NOW + add, UTC) for add in (-3600, 7200))
    return [mark.label for mark in execution_metrics.marks(pool, since, until)]


def test_a_new_release_is_one_deploy_for_all_its_processes(deploys, pool):
    assert deploys("v1", 0) == [("v1", "")]
    assert deploys("v1", 1) == [("v1", "")]
    assert deploys("v2", 2) == [("v2", "v1"), ("v1", "")]
    assert deploys("v2", 9, first=False) == [("v2", "v1"), ("v1", "")]


def test_a_rollback_is_a_deploy_and_a_restart_is_none(deploys):
    deploys("v1", 0)
    deploys("v1", 10, first=False)
    deploys("v2", 20)
    assert len(deploys("v1", 30)) == 2, "processes of v1 still ran a moment ago"
    deploys("v2", 100, first=False)
    assert deploys("v1", 200)[0] == ("v1", "v2")
    assert len(deploys("v1", 2_000)) == 3, "no other release ran while it had ended"


def test_a_deploy_is_marked_unless_an_operator_has_marked_it(deploys, pool):
    deploys("v1", 0)
    assert marks(pool) == ["v1"]
    execution_metrics.mark(pool, "v2: by hand", datetime.fromtimestamp(NOW + 1_000, UTC))
    assert deploys("v2", 1_100)[0] == ("v2", "v1")
    assert marks(pool) == ["v1", "v2: by hand"]


def test_the_mark_of_an_operator_replaces_that_of_the_release_in_its_minute(deploys, pool):
    at = datetime.fromtimestamp(NOW, UTC)
    deploys("v1", 0)
    assert not releases.mark(pool, "v1", at), "it is marked"
    assert releases.mark(pool, "v1: new prices", at)
    assert marks(pool) == ["v1: new prices"]
    assert not releases.mark(pool, "of another team", at)
    assert marks(pool) == ["v1: new prices"]


def test_the_latest_hundred_releases_are_kept(deploys, raw_redis):
    for number in range(150):
        deploys(f"v{number}", number)
    assert raw_redis.zcard("offsider:releases") == 100
    assert raw_redis.zscore("offsider:releases", "v149") == NOW + 149
