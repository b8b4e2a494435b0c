"""Limits over real worker processes, some of which are killed: never over the limit, and nothing lost.

How many jobs run at one time is sampled from inside of them, by a counter in Redis. A job that dies with its process
leaves the counter too high, so each process counts its own.
"""

from __future__ import annotations

import time

import pytest

from offsider import Config
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.inspector import Controls
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
APP = """
    import os
    import time
    from offsider import Config, current_job, job
    from offsider.ext.concurrency_limits import ConcurrencyLimits
    from tests.process.ledger import note
    from tests.tagged import client_of

    def configure(config: Config) -> None:
        config.use(ConcurrencyLimits())

    counters = client_of(os.environ["REDIS_URL"])

    @job(name="Limited", concurrency_limit=3)
    def limited(number, seconds):
        process = current_job().process
        counters.hincrby("running", process, 1)
        now = counters.hvals("running")
        note("start", current_job().jid, sum(map(int, now)))
        time.sleep(seconds)
        counters.hincrby("running", process, -1)
        note("end", current_job().jid, number)
"""


@pytest.fixture
def controls(url):
    config = Config()
    config.redis.url = url
    yield Controls(config), Client(config)
    Installation.of(config).close()


def push(client, count, seconds):
    return client.push_bulk({"class": "Limited", "args": [[number, seconds] for number in range(count)]})


def pid_of(worker):
    """Of the process that runs jobs, which need not be the one that was started."""
    return int(worker.identity.split(":")[-2])


def test_two_processes_never_run_more_than_the_limit(workers, ledger, controls, stored):
    controls, client = controls
    jids = push(client, 1_000, 0.005)
    workers.start("-c", "5", text=APP, environ=FAST)
    workers.start("-c", "5", app="app", environ=FAST)
    wait_for(lambda: stored.llen("queue:default") == 0 and controls.count_held("Limited") == 0, 60)
    wait_for(lambda: len(ledger.notes("end")) == 1_000)
    assert max(map(int, ledger.words("start"))) == 3  # the limit is kept, and it is made use of
    assert set(ledger.counts("end").values()) == {1}
    assert set(ledger.counts("end")) == set(jids)


def test_slots_of_killed_processes_are_freed_and_their_jobs_run_again(workers, ledger, controls, stored):
    controls, client = controls
    jids = []
    steady = workers.start("-c", "5", text=APP, environ=FAST)
    for round_ in range(2):
        doomed = workers.start("-c", "5", app="app", environ=FAST)
        jids += push(client, 60, 0.05)
        wait_for(lambda doomed=doomed: ledger.notes("start", pid=pid_of(doomed)), 30)
        doomed.kill()
        stored.hdel("running", doomed.identity)
        assert steady.runs, round_
    wait_for(lambda: len(set(ledger.counts("end"))) == len(jids), 60)
    assert set(ledger.counts("end")) == set(jids)
    assert max(map(int, ledger.words("start"))) <= 3
    wait_for(lambda: len(controls.holders("Limited")) == controls.count_held("Limited") == 0)


def test_a_held_job_starts_as_soon_as_a_slot_is_free(workers, ledger, controls):
    controls, client = controls
    workers.start("-c", "5", text=APP, environ=FAST)
    workers.start("-c", "5", app="app", environ=FAST)
    push(client, 16, 0.3)
    wait_for(lambda: len(ledger.notes("end")) == 16, 60)
    ends = sorted(note.time for note in ledger.notes("end"))
    starts = sorted(note.time for note in ledger.notes("start"))
    # The fourth run takes the slot of the first that has ended, and so on. Who looks once a second is not so quick.
    waits = sorted(start - end for end, start in zip(ends, starts[3:], strict=False))
    assert waits[0] >= 0
    assert waits[len(waits) // 2] < 0.25
    assert waits[-1] < 2


def test_slots_of_a_killed_process_are_used_within_a_second_of_its_death_notice(workers, ledger, controls, stored):
    controls, client = controls
    doomed = workers.start("-c", "5", text=APP, environ=FAST)
    push(client, 3, 300)
    wait_for(lambda: len(ledger.notes("start")) == 3)
    workers.start("-c", "5", app="app", environ=FAST)
    push(client, 3, 0.0)
    wait_for(lambda: controls.count_held("Limited") == 3)
    doomed.kill()
    stored.hdel("running", doomed.identity)
    wait_for(lambda: stored.exists(f"offsider:fenced:{doomed.identity}"), 60)
    known_at = time.time()
    wait_for(lambda: len(ledger.notes("start")) > 3, 30)
    # While jobs are held slots are checked once a second; otherwise only four times a minute.
    assert ledger.notes("start")[3].time - known_at < 6


def commands(client):
    """The number of commands executed by the server for all clients."""
    return sum(stats["calls"] for stats in client.info("commandstats").values())


def test_held_jobs_cost_few_requests_to_the_server(workers, ledger, controls, stored):
    controls, client = controls
    controls.hold("Limited")
    workers.start("-c", "5", text=APP, environ=FAST)
    workers.start("-c", "5", app="app", environ=FAST)
    push(client, 1_000, 0.0)
    wait_for(lambda: controls.count_held("Limited") == 1_000, 60)
    before, until = commands(stored), time.monotonic() + 5
    wait_for(lambda: time.monotonic() > until)
    # Two processes with nothing to do make some hundreds; asking once for each job, two thousand.
    assert commands(stored) - before < 2_000
    assert ledger.notes() == []


def test_a_class_is_held_and_resumed_in_a_running_fleet(workers, ledger, controls):
    controls, client = controls
    worker = workers.start("-c", "5", text=APP, environ=FAST)
    controls.hold("Limited")
    worker.until_says("jobs of Limited are held from now on")
    push(client, 10, 0.0)
    wait_for(lambda: controls.count_held("Limited") == 10)
    assert ledger.notes() == []
    controls.resume("Limited")
    wait_for(lambda: len(ledger.notes("end")) == 10)
