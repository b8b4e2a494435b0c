"""``offsider migrate`` while workers run, and while it is killed: every job runs, and runs once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
import redis

from tests.process.stored import push, sorted_set, waiting
from tests.process.workers import ROOT
from tests.waiting import wait_for

JOBS = 600
APP = """
    import time
    from offsider import current_job, job
    from tests.process.ledger import note

    @job(name="Here", urgency="high")
    def here():
        time.sleep(0.01)
        note("ran", current_job().jid, current_job().queue)

    @job(name="There", tags=["bulk"])
    def there():
        time.sleep(0.01)
        note("ran", current_job().jid, current_job().queue)
"""
SETTINGS = """
[servers.bulk]
url = "{url}"

[routing]
rules = [["urgency=high", "urgent"], ["tags=bulk", "slow", "bulk"]]

[shards.bulk]
queues = ["slow"]
server = "bulk"
"""


@pytest.fixture
def bulk(other_url):
    with redis.Redis.from_url(other_url) as client:
        yield client


@pytest.fixture
def settings(workers, url, other_url):
    workers.write(APP, "app.py")
    return workers.write(SETTINGS.format(url=other_url), "offsider.toml")


def migrate(workers, *words):
    command = [sys.executable, "-m", "offsider", "migrate", "-r", "app", "--yes", *words]
    environ = workers._environ({"PYTHONPATH": f"{ROOT}:{workers.folder}"})
    return subprocess.Popen(
        command,
        cwd=workers.folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def migrated(workers, *words):
    with migrate(workers, *words) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output.decode()


def fill(stored):
    """Jobs in queues and sets; half of them belong to the other server."""
    jids = [push(stored, ("Here", "There")[n % 2], queue="old") for n in range(JOBS)]
    later = [push(stored, ("Here", "There")[n % 2], queue="parking") for n in range(40)]
    for raw in stored.lrange("queue:parking", 0, -1):
        stored.zadd("retry", {raw.replace(b'"parking"', b'"old"'): 4e9})
    stored.delete("queue:parking")
    stored.srem("queues", "parking")
    return jids, later


def kill_while_it_moves(workers, bulk):
    """A migration that is killed as soon as it has begun to write on the other server."""
    notes = len(bulk.keys("offsider:stored:*"))
    with migrate(workers) as process:
        wait_for(lambda: process.poll() is not None or len(bulk.keys("offsider:stored:*")) > notes, 60)
        process.kill()
        process.communicate()


def test_jobs_that_workers_take_and_a_migration_moves_run_once(settings, workers, stored, bulk, ledger):
    jids, later = fill(stored)
    path = {"PYTHONPATH": f"{ROOT}:{workers.folder}"}
    workers.start("-q", "old", "-q", "urgent", "-c", "2", app="app", environ=path)
    workers.start("--shard", "bulk", "-c", "2", app="app", environ=path)
    for _ in range(5):
        kill_while_it_moves(workers, bulk)
        jids += [push(stored, ("Here", "There")[n % 2], queue="old") for n in range(100)]
    migrated(workers)
    wait_for(lambda: len(ledger.counts("ran")) == len(jids), 60)
    assert ledger.counts("ran") == Counter(dict.fromkeys(jids, 1))
    assert set(ledger.words("ran")) <= {"old", "urgent", "slow"}
    stayed, gone = sorted_set(stored, "retry"), sorted_set(bulk, "retry")
    assert Counter(job["jid"] for job in [*stayed, *gone]) == Counter(later)
    assert ({job["queue"] for job in stayed}, {job["queue"] for job in gone}) == ({"urgent"}, {"slow"})
    assert waiting(stored, "old") == waiting(bulk, "slow") == []
    assert not stored.keys("offsider:migrating:*")


def test_a_preview_and_a_run_print_the_total_counts(settings, workers, stored, bulk):
    fill(stored)
    before = stored.llen("queue:old")
    assert "640 jobs scanned, 640 to move" in migrated(workers, "--preview")
    assert stored.llen("queue:old") == before
    assert ", 640 moved" in migrated(workers)
    assert (stored.llen("queue:urgent"), bulk.llen("queue:slow"), bulk.zcard("retry")) == (300, 300, 20)
