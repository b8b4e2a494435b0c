"""Jobs that a migration has left between two servers are found."""

from __future__ import annotations

from offsider.inspector.doctor.finding import Severity
from tests.redis.inspector.examined import examined, severity


def test_without_a_journal_there_is_nothing_to_say(redis_url, raw_redis):
    assert severity(examined(redis_url), "migration") == "none"
    raw_redis.sadd("offsider:migrating", "aaaa bulk")
    assert severity(examined(redis_url), "migration") == "none"


def test_jobs_on_their_way_are_told_with_the_way_out(redis_url, raw_redis):
    raw_redis.sadd("offsider:migrating", "aaaa bulk")
    raw_redis.lpush("offsider:migrating:aaaa", "1 - queue:slow\n{}", "2 - queue:slow\n{}")
    finding = examined(redis_url)["migration"]
    assert finding.severity is Severity.WARN
    assert finding.what == "2 jobs on the way to the server bulk"
    assert "offsider migrate" in finding.way_out
