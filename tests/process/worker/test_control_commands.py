"""Controls from the command line, in worker processes that run already."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from offsider.config.config import Config
from offsider.inspector import Controls, Quarantine, Stats
from tests.process.stored import push
from tests.waiting import wait_for

#: The promise. Most tries have to keep it: the machine may be busy for a moment.
SOON_SECONDS = 2.0


def command(url: str, *words: str) -> None:
    called = [sys.executable, "-m", "offsider", "controls", *words]
    subprocess.run(called, env={"REDIS_URL": url}, check=True, capture_output=True, timeout=60)


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
        command(url, "resume", "Short")
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


def test_deferred_jobs_run_once_their_control_has_ended(workers, stored, ledger, url):
    worker = workers.start("-c", "2")
    command(url, "defer", "Short", "--delay", "5s")
    worker.until_says("jobs of Short are deferred by 5 s")
    for number in range(10):
        push(stored, "Short", number)
    wait_for(lambda: stored.zcard("schedule") == 10)
    command(url, "resume", "Short")
    wait_for(lambda: len(ledger.notes("end")) == 10)
    assert stored.zcard("retry") == 0
