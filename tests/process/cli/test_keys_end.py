"""After every feature was used and all its jobs have ended, only documented keys are left."""

from __future__ import annotations

import re
from pathlib import Path

import redis

from offsider.inspector import Controls, DeadSet, RetrySet, ScheduledSet
from tests.process import every_feature_used as every_feature
from tests.process.stored import private
from tests.process.workers import Worker
from tests.waiting import wait_for

PAGE = Path(every_feature.ROOT, "docs/internals/keys.md")
HEADING = "## Keys without a time to live"
#: The longest documented life: daily counters of Sidekiq.
MAX_DELAY_SECONDS = 5 * 366 * 86_400


def endless() -> list[re.Pattern[str]]:
    """The keys of the page's list of keys that never expire."""
    rows = re.findall(r"^\| (`.+?`) \|", PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0], re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(names) > 20
    return [
        re.compile(re.sub(r"<[a-z]+>", ".+", re.escape(name).replace(r"\<", "<").replace(r"\>", ">"))) for name in names
    ]


def stopped_with_one_job(worker: Worker, stored: redis.Redis) -> bool:
    """Freeze a worker; let it go on if it holds a second job, because then neither would be a poison pill."""
    worker.send("STOP")
    is_alone = len(private(stored)) == 1
    worker.send("STOP" if is_alone else "CONT")
    return is_alone


def test_every_key_that_is_left_has_a_documented_end(workers, stored, url):
    config = every_feature.here(url).config
    Controls(config).drop("every.dropped", reason="a test")
    every_feature.push_from_a_process(url)
    environ = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3", "OFFSIDER_WORKER_MAX_STRIKES": "1"}
    killed = workers.start("-c", "3", app="tests.process.every_feature", environ=environ)
    wait_for(lambda: every_feature.settled(stored) and len(private(stored)) == 1, 60)
    wait_for(lambda: stored.exists("offsider:periodic:history:often", "offsider:errors") == 2)
    wait_for(lambda: stopped_with_one_job(killed, stored))
    killed.kill()  # the job is a poison pill
    worker = workers.start("-c", "3", app="tests.process.every_feature", environ=environ)
    wait_for(lambda: any(b"every.waiting" in raw for raw in stored.zrange("dead", 0, -1)), 60)
    controls = Controls(config)
    controls.resume("every.dropped")
    controls.limit("every.keyed", 5)
    controls.hold("every.keyed")
    controls.resume("every.keyed")
    for entries in (RetrySet(config), ScheduledSet(config)):
        for entry in entries:
            entry.delete()
    assert DeadSet(config).quarantine_all() > 1
    wait_for(lambda: every_feature.settled(stored) and private(stored) == [])
    worker.stopped()
    stored.delete("queue:default")  # ticks that came while it stopped
    never, allowed = [], endless()
    for key in stored.scan_iter():
        name, left = key.decode(), stored.ttl(key)
        if left == -1 and not any(pattern.fullmatch(name) for pattern in allowed):
            never.append(name)
        assert left <= MAX_DELAY_SECONDS, name
    assert never == []
