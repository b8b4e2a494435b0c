"""Real workers score real runs: the page of a workload with known outcomes."""

from __future__ import annotations

import json
import urllib.request

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.fleet import Score, ServiceLevels
from tests.process.web_process import WebProcess
from tests.waiting import wait_for

APP = """
import time
from offsider import job
from offsider.core.series import RUN_SECONDS

RUN_SECONDS["high"] = 0.5

@job(name="Quick", urgency="high", feature_category="mail", retry=False)
def quick(): ...

@job(name="Slow", urgency="high", feature_category="mail", retry=False)
def slow():
    time.sleep(0.6)

@job(name="Broken", retry=False)
def broken():
    raise LookupError("gone")

@job(name="Patient", urgency="throttled", retry=False)
def patient(): ...
"""
SETTINGS = """
[slo]
high_queue_seconds = 120

[shards.urgent]
queues = ["default"]
"""
HOUR_AGO = 3600


def test_targets_are_counted_by_the_worker_and_shown_on_the_page(workers, stored, url, tmp_path):
    workers.write(SETTINGS, "offsider.toml")
    now = float(stored.time()[0])
    for number, (name, waited) in enumerate(
        [("Quick", 0)] * 40
        + [("Quick", HOUR_AGO)] * 2
        + [("Slow", 0)] * 3
        + [("Broken", 0)] * 5
        + [("Patient", HOUR_AGO)]
    ):
        payload = {"class": name, "args": [], "jid": f"{number:024x}", "queue": "default", "retry": False}
        stored.lpush("queue:default", json.dumps(payload | {"enqueued_at": int((now - waited) * 1000)}))
    worker = workers.start("-c", "4", "--shard", "urgent", text=APP)
    wait_for(lambda: not stored.keys("queue:default") and not stored.keys("offsider:working:*"))
    worker.stopped()

    config = Config()
    config.redis.url = url
    levels = ServiceLevels.read(config)
    Installation.of(config).close()
    found = {level.name: level.scores["1h"] for level in levels.classes}
    assert found == {"Quick": Score(42, 0, 2), "Slow": Score(3, 0, 3), "Broken": Score(5, 5, 0), "Patient": Score(1)}
    assert {level.shard for level in levels.classes} == {"urgent"}

    web = WebProcess(tmp_path, url)
    try:
        page = json.load(urllib.request.urlopen(f"{web.url}/slos?format=json", timeout=10))
    finally:
        web.close()
    urgencies = {row["name"]: (row["total"], row["satisfied"]) for row in page["urgencies"]}
    assert urgencies == {"high": (45, 40), "low": (5, 0), "throttled": (1, 1)}
    assert [(row["name"], row["total"]) for row in page["categories"]] == [("mail", 45)]
    (shard,) = page["shards"]
    assert shard["name"] == "urgent"
    assert 0 < shard["used"]["1h"] < 1  # three runs of 0.6 s, out of the time of four threads
