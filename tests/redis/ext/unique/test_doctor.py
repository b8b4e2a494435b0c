"""Locks in the doctor."""

from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.unique import Locks, store
from offsider.ext.unique.doctor import OLD_SECONDS, check_unique
from offsider.inspector.doctor import Severity
from offsider.inspector.doctor.examination import examine
from offsider.storage.leases import hold_lease


def push_unique(config: Config) -> None:
    assert Client(config).push({"class": "Refresh", "args": [1], "unique_for": 3600})


def grow_older(config: Config, seconds: float) -> None:
    (lock,) = Locks(config)
    text = store.text(lock.jid, lock.job_name, int((lock.taken_at - seconds) * 1000))
    Installation.of(config).redis.call(
        "SET", store.lock_key(Installation.of(config).redis.keys, lock.name), text, "KEEPTTL"
    )


def test_without_old_locks_the_check_passes(config):
    assert [finding.severity for finding in check_unique(Installation.of(config))] == [Severity.OK]
    push_unique(config)
    assert [finding.what for finding in check_unique(Installation.of(config))] == ["1 lock of unique jobs"]


def test_old_locks_without_a_reaper_are_reported_with_a_fix(config):
    push_unique(config)
    grow_older(config, OLD_SECONDS + 1)
    (finding,) = [finding for finding in examine(config) if finding.check == "unique"]
    assert finding.severity is Severity.WARN
    assert "no worker releases locks of jobs that no longer exist" in finding.what
    assert "config.use(Unique())" in finding.fix


def test_old_locks_pass_the_check_while_a_worker_reaps(config):
    push_unique(config)
    grow_older(config, OLD_SECONDS + 1)
    hold_lease(Installation.of(config).redis, "unique", "somebody", 60.0)
    assert [finding.severity for finding in check_unique(Installation.of(config))] == [Severity.OK]


def test_a_check_refused_by_the_server_does_not_hide_others(config, raw_redis):
    raw_redis.set("offsider:unique", "no set")
    findings = examine(config)
    assert [finding.severity for finding in findings if finding.check == "unique"] == [Severity.WARN]
    assert len(findings) > 5
