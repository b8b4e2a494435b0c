"""Unique jobs and real worker processes that are killed: a lock outlives them, and none is left behind."""

from __future__ import annotations

from itertools import cycle, islice

from offsider import Config
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.unique import Locks, Unique
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
APP = """
    import time
    from offsider import Config, current_job, job
    from offsider.ext.unique import Unique
    from tests.process.ledger import note

    def configure(config: Config) -> None:
        config.use(Unique())

    @job(name="Slow")
    def slow(number):
        note("start", current_job().jid, number)
        if not current_job().interrupted_count:
            time.sleep(60)
        note("end", current_job().jid, number)

    @job(name="Quick")
    def quick(number):
        note("start", current_job().jid, number)
        time.sleep(0.02)
        note("end", current_job().jid, number)
"""


def unique_client(url):
    config = Config()
    config.redis.url = url
    config.use(Unique())
    return config, Client(config)


def test_a_job_of_a_killed_worker_keeps_its_lock_until_it_has_run(workers, url, ledger):
    config, client = unique_client(url)
    item = {"class": "Slow", "args": [1], "unique_for": 600}
    jid = client.push(item)
    doomed = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("start"))
    assert not client.push(item)
    doomed.kill()
    assert not client.push(item)
    assert [lock.jid for lock in Locks(config)] == [jid]
    workers.start("-c", "1", app="app", environ=FAST)
    wait_for(lambda: ledger.notes("end"), 40)
    wait_for(lambda: not [*Locks(config)])
    assert set(ledger.counts("end")) == {jid}
    assert client.push(item)
    Installation.of(config).close()


def test_no_lock_is_left_when_workers_are_killed_again_and_again(workers, url, ledger, stored):
    config, client = unique_client(url)
    items = [{"class": "Quick", "args": [number], "unique_for": 600} for number in range(40)]
    accepted = []
    running = workers.start("-c", "4", text=APP, environ=FAST)
    for round_ in range(3):
        accepted += [jid for item in islice(cycle(items), 120) if (jid := client.push(item))]
        wait_for(lambda round_=round_: len(ledger.notes("end")) > 15 * round_)
        running.kill_alone()
        running = workers.start("-c", "4", app="app", environ=FAST)
    wait_for(lambda: not [*Locks(config)], 60)
    assert set(ledger.counts("end")) == set(accepted)  # none lost, none that was dropped
    assert stored.llen("queue:default") == 0
    assert all(client.push(item) for item in items)
    Installation.of(config).close()
