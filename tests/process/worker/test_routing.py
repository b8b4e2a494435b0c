"""Rules in a worker: pushes of its jobs are routed, and it publishes its rules."""

from __future__ import annotations

from offsider import Client, Config, fleet
from offsider.fleet import rules_in_use
from offsider.inspector.doctor.examination import examine
from tests.process.stored import push
from tests.waiting import wait_for

SHOP = """
    from offsider import job
    from tests.process.ledger import note

    @job(name="Child", urgency="high", queue="declared")
    def child():
        note("ran", word="child")

    @job(name="Parent")
    def parent():
        child.enqueue()
"""


def test_jobs_push_by_the_rules_of_their_worker_and_different_rules_are_found(workers, stored, ledger, url):
    workers.write(
        '[routing]\nrules = [["urgency=high", "urgent"]]\n[worker]\nqueues = ["default", "urgent"]\n', "offsider.toml"
    )
    worker = workers.start(text=SHOP)
    push(stored, "Parent")
    wait_for(lambda: ledger.words("ran"))
    config = Config()
    config.redis.url = url
    fleet.install(config)
    (same,) = wait_for(lambda: [used for used in rules_in_use(config) if used.rules != "none"])
    assert [user.partition(" on ")[0] for user in same.users] == ["worker"]
    assert stored.smembers("queues") == {b"default", b"urgent"}
    assert "routing" not in {finding.id for finding in examine(config) if finding.severity}
    Client(config).push({"class": "Parent", "args": []})
    (warning,) = [finding for finding in examine(config) if finding.id == "routing"]
    assert "no rules by" in warning.what
    assert same.rules in warning.what
    worker.send("TERM")
    assert worker.ended(seconds=20) == 0
