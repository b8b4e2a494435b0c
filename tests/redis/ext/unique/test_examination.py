"""What the doctor says about locks."""

from offsider.client import Client
from offsider.ext.unique import Locks, store
from offsider.ext.unique.examination import OLD_SECONDS, check_unique
from offsider.inspector.doctor import Severity, examine
from offsider.storage.turns import hold_turn
from offsider.wiring.config import Config


def push_unique(config: Config) -> None:
    assert Client(config).push({"class": "Refresh", "args": [1], "unique_for": 3600})


def grow_older(config: Config, seconds: float) -> None:
    (lock,) = Locks(config)
    text = store.text(lock.jid, lock.job_name, int((lock.taken_at - seconds) * 1000))
    config.shared_redis().call("SET", store.lock_key(config.shared_redis().keys, lock.name), text, "KEEPTTL")


def test_no_locks_and_young_ones_are_well(config):
    assert [finding.severity for finding in check_unique(config)] == [Severity.OK]
    push_unique(config)
    assert [finding.what for finding in check_unique(config)] == ["1 lock of unique jobs"]


def test_old_locks_that_nobody_looks_after_are_told_with_the_way_out(config):
    push_unique(config)
    grow_older(config, OLD_SECONDS + 1)
    (finding,) = [finding for finding in examine(config) if finding.check == "unique"]
    assert finding.severity is Severity.WARN
    assert "no worker looks for those whose job is nowhere" in finding.what
    assert "config.use(Unique())" in finding.way_out


def test_old_locks_are_well_while_a_worker_looks_after_them(config):
    push_unique(config)
    grow_older(config, OLD_SECONDS + 1)
    hold_turn(config.shared_redis(), "unique", "somebody", 60.0)
    assert [finding.severity for finding in check_unique(config)] == [Severity.OK]


def test_a_check_that_the_server_refuses_hides_no_other(config, raw_redis):
    raw_redis.set("offsider:unique", "no set")
    findings = examine(config)
    assert [finding.severity for finding in findings if finding.check == "unique"] == [Severity.WARN]
    assert len(findings) > 5
