"""Shards of two servers as real processes: every job runs where the rules send it, also when a job pushes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
import redis

from tests.conftest import emptied
from tests.process.stored import sorted_set
from tests.process.workers import ROOT
from tests.waiting import wait_for

APP = """
    import os
    from offsider import job
    from tests.process.jobs import begin
    from tests.process.ledger import note

    def ran(name):
        note("ran", begin(), f"{name} {os.environ['WHO']}")

    @job(name="Urgent", urgency="high")
    def urgent(more=0):
        ran("Urgent")
        for _ in range(more):
            slow.enqueue()

    @job(name="Slow", urgency="throttled")
    def slow(more=0):
        ran("Slow")
        for _ in range(more):
            urgent.enqueue()

    @job(name="Broken", urgency="throttled")
    def broken():
        raise RuntimeError("it fails")

    @job(name="Usual")
    def usual():
        ran("Usual")
"""

PUSHES = """
    import app
    for _ in range(20):
        app.urgent.enqueue()
        app.slow.enqueue()
        app.usual.enqueue()
    app.urgent.enqueue(5)
    app.slow.enqueue(5)
    app.slow.enqueue_in(0.1)
    app.broken.enqueue()
"""

FILE = """
[redis]
url = "{main}"

[servers.bulk]
url = "{bulk}"

[routing]
rules = [["urgency=high", "urgent"], ["urgency=throttled", "bulk", "bulk"], ["*", "default"]]

[shards.fast]
select = "urgency=high"
concurrency = 3

[shards.bulk]
queues = ["bulk"]
server = "bulk"
concurrency = 2
processes = 2

[shards.catchall]
queues = ["default"]
"""


@pytest.fixture
def bulk(server_of):
    """A client of the second server."""
    with redis.Redis.from_url(emptied(server_of("redis7")).url) as client:
        yield client


@pytest.fixture
def fleet(workers, url, bulk, server_of):
    """The configuration, and a function that starts the workers of a shard."""
    workers.write(FILE.format(main=url, bulk=server_of("redis7").url), "offsider.toml")
    app = workers.write(APP)

    def start(shard, *options):
        # The file has the addresses of the servers.
        return workers.start("--shard", shard, *options, app=app, environ={"WHO": shard, "REDIS_URL": None})

    return start


def push(folder):
    program = "\n".join(line.removeprefix("    ") for line in PUSHES.splitlines())
    environ = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environ | {"PYTHONPATH": str(ROOT)}, check=True, timeout=60
    )


def test_every_job_runs_on_the_shard_that_the_rules_send_it_to(fleet, workers, ledger, stored, bulk):
    started = [fleet(shard) for shard in ("fast", "bulk", "catchall")]
    push(workers.folder)
    wanted = {"Urgent fast": 26, "Slow bulk": 27, "Usual catchall": 20}
    wait_for(lambda: len(ledger.notes("ran")) >= sum(wanted.values()))
    assert Counter(note.word for note in ledger.notes("ran")) == wanted
    assert "shard fast" in started[0].output
    assert bulk.smembers("queues") == {b"bulk"}
    assert stored.smembers("queues") == {b"urgent", b"default"}
    assert [job["class"] for job in wait_for(lambda: sorted_set(bulk, "retry"))] == ["Broken"]
    assert [*sorted_set(stored, "retry"), *sorted_set(stored, "schedule")] == []
    for worker in started:
        worker.stopped()
