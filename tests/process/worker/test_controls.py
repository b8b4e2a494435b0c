"""Controls in worker processes that run already."""

from __future__ import annotations

import time
from statistics import median

from offsider.config.config import Config
from offsider.inspector import Controls, Quarantine, Stats
from tests.process.stored import push
from tests.waiting import wait_for

#: The promise. Most tries have to keep it: the machine may be busy for a moment.
SOON_SECONDS = 2.0


def test_every_worker_applies_a_control_within_two_seconds_and_nothing_is_lost(workers, stored, ledger, url):
    both = [workers.start("-c", "2"), workers.start("-c", "2")]
    config = Config()
    config.redis.url = url
    took: list[float] = []
    for times in (1, 2, 3):
        began = time.monotonic()
        Controls(config).drop("Short", reason="a test")
        for worker in both:
            worker.until_says("jobs of Short are dropped from now on", times=times)
        took.append(time.monotonic() - began)
        for number in range(20):
            push(stored, "Short", number)
        wait_for(lambda times=times: len(Quarantine(config)) == 20 * times)
        Controls(config).resume("Short")
        for worker in both:
            worker.until_says("jobs of Short run again", times=times)
    assert ledger.notes() == []
    assert median(took) < SOON_SECONDS, took
    assert Quarantine(config).restore_all() == 60
    wait_for(lambda: len(ledger.notes("end")) == 60)
    output = both[0].stopped() + both[1].stopped()
    assert output.count(" dropped: ") + output.count("dropped=") >= 60
    stats = Stats.read(config)
    assert (stats.processed, stats.failed) == (60, 0)
