"""Jobs that a migration has left between two servers are found."""

from __future__ import annotations

from offsider.inspector.doctor.finding import Severity
from tests.redis.inspector.examined import examined, severity


def test_without_jobs_in_transit_there_is_nothing_to_report(redis_url, raw_redis):
    assert severity(examined(redis_url), "migration") == "none"
    raw_redis.sadd("offsider:migrating", "bulk")
    assert severity(examined(redis_url), "migration") == "none"


def test_jobs_in_transit_are_reported_with_the_next_step(redis_url, raw_redis):
    raw_redis.sadd("offsider:migrating", "bulk")
    raw_redis.lpush("offsider:migrating:bulk", "m1 - queue:slow\n{}", "m2 - queue:slow\n{}")
    finding = examined(redis_url)["migration"]
    assert finding.severity is Severity.WARN
    assert finding.what == "2 jobs in transit to the server bulk"
    assert "offsider migrate" in finding.fix
