"""Workers and clients on a Cluster: pushed jobs run while the slot migrates and its primary is killed."""

from __future__ import annotations

import threading
import time

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.core.errors import RedisFailure
from offsider.ext.batches import Batch, Batches
from offsider.jobs import registry
from tests.waiting import wait_for

APP = """
    import time

    from offsider import Config, current_job, job
    from offsider.ext.batches import Batches
    from offsider.ext.limiters import Limiter, Limiters
    from tests.process.ledger import note

    LIMITER = Limiter.concurrent("one", 1, wait_timeout=5)

    def configure(config: Config) -> None:
        config.use(Batches())
        config.use(Limiters())

    @job(name="Short")
    def short(number=0, seconds=0.0):
        time.sleep(seconds)
        note("end", current_job().jid, number)

    @job(name="Once", retry_in=lambda count, error, payload: 1)
    def once(number):
        if current_job().retry_count is None:
            raise ValueError("try again")
        note("end", current_job().jid, number)

    @job(name="Complete")
    def complete(bid, options):
        note("complete", bid)

    @job(name="Limited")
    def limited(number):
        with LIMITER.within_limit():
            note("end", current_job().jid, number)
"""


class Pushing:
    """A thread that pushes jobs, and records the stored ones and the duration of each push."""

    def __init__(self, config, **options):
        self.stored, self.failed, self.longest = [], 0, [0.0]
        self._client, self._options = Client(config), options
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._ended.is_set():
            started = time.monotonic()
            try:
                self.stored.append(str(self._client.push({"class": "Short", "args": [0]}, **self._options)))
            except RedisFailure:
                self.failed += 1
                time.sleep(0.05)
            else:
                self.longest[-1] = max(self.longest[-1], time.monotonic() - started)
                time.sleep(0.005)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self._client.close()


@pytest.fixture
def config(cluster):
    config = Config()
    config.redis.url = cluster.url
    config.use(Batches())
    return config


def complete(bid, options):
    """The callback; the worker has its own."""


def ran(ledger, jids):
    wait_for(lambda: set(jids) <= {note.jid for note in ledger.notes("end")}, what="the end of every job")


def test_jobs_of_all_kinds_run_while_the_slot_migrates_and_none_is_lost(cluster, config, workers, ledger):
    workers.url = cluster.url
    config.client.push_timeout_seconds = 30.0  # a server that has no CPU for a second is no failure
    worker = workers.start("-c", "4", text=APP)
    client = Client(config)
    jids = [str(client.push({"class": name, "args": [1]})) for name in ("Once", "Limited", "Limited")]
    jids.append(str(client.push({"class": "Short", "args": [2], "at": time.time() + 1})))
    with registry.isolated(), Batch(config=config).on("success", job(name="Complete")(complete)) as batch:
        jids += map(str, client.push_bulk({"class": "Once", "args": [[n] for n in range(20)]}))
    with Pushing(config) as pushing:
        time.sleep(0.3)
        for _ in range(5):
            source, target = cluster.primary(), cluster.others()[0]
            slot = cluster.begin_migration(source, target)
            time.sleep(0.1)
            cluster.end_migration(source, target, slot)
            time.sleep(0.3)
            pushing.longest.append(0.0)
    client.close()
    ran(ledger, [*jids, *pushing.stored])
    wait_for(lambda: ledger.notes("complete"), what="the callback of the batch")
    assert [note.jid for note in ledger.notes("complete")] == [batch.bid]
    assert pushing.failed == 0
    assert sorted(pushing.longest[:5])[2] < 1, pushing.longest  # the machine may be busy in two migrations
    assert len({note.jid for note in ledger.notes("end")}) == len(ledger.notes("end"))
    assert "Cluster: hash tag {offsider}" in worker.stopped()


def test_replicated_pushes_run_after_the_primary_was_killed(cluster, config, workers, ledger):
    workers.url = cluster.url
    worker = workers.start("-c", "4", text=APP)
    killed = cluster.primary()
    try:
        with Pushing(config, wait_replicas=1) as pushing:
            time.sleep(0.5)
            killed.kill()
            cluster.wait_for_failover(killed)
            before = len(pushing.stored)
            wait_for(lambda: len(pushing.stored) > before or pushing.failed > 0)
            killed.start()
            cluster.wait()
            before = len(pushing.stored)
            wait_for(lambda: len(pushing.stored) > before + 10)
        ran(ledger, pushing.stored)
        worker.stopped()
    finally:
        if killed.role() == "":
            killed.start()
