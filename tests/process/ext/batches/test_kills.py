"""Workers that are killed: every callback is pushed once, none before its members have run."""

from __future__ import annotations

import json

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.batches import Batch, Batches
from offsider.jobs import registry
from tests.process.stored import private, waiting
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
JOBS = """
    import time
    from offsider import current_job, job
    from tests.process.ledger import note

    @job(name="Member")
    def member(name, seconds):
        time.sleep(seconds)
        note("ran", current_job().jid, name)

    @job(name="Report", queue="reports")
    def report(bid, options):
        note(options["event"], current_job().jid, bid)
"""
APP = f"""
    from offsider import Config
    from offsider.ext.batches import Batch, Batches, current_batch

    def configure(config: Config) -> None:
        config.use(Batches())
{JOBS}"""
#: Dies at a request about the batch: of its member that adds three jobs, one of them in a child.
DYING = f"""
    import os
    import select
    import signal
    import socket
{APP}
    @job(name="Adds")
    def adds():
        with current_batch(), Batch().on("success", report, {{"event": "child"}}):
            member.enqueue("low", 0)
        with current_batch().jobs():
            member.enqueue("high", 0)
        note("added", current_job().jid)

    WHEN, NUMBER = os.environ.get("DIE", " 0").split(" ")
    seen = 0
    sendall = socket.socket.sendall

    def dying(sock, data, *args):
        global seen
        batches = b"b-" in bytes(data)
        seen += batches
        if batches and seen == int(NUMBER):
            if WHEN == "after":
                sendall(sock, data, *args)
                select.select([sock], [], [], 5)
            os.kill(os.getpid(), signal.SIGKILL)
        return sendall(sock, data, *args)

    socket.socket.sendall = dying
"""

QUEUES = ("-q", "default", "-q", "reports")
#: Requests of the member; the last ones write its outcome.
LAST = 11


@pytest.fixture
def config(url):
    config = Config()
    config.redis.url = url
    config.use(Batches())
    yield config
    Installation.of(config).close()


def watched(config):
    """A batch whose callbacks note their event."""
    with registry.isolated():
        report = job(name="Report", queue="reports")(lambda bid, options: None)
        batch = Batch(config=config)
        for event in ("complete", "success", "death"):
            batch.on(event, report, {"event": event})
    return batch


def reports(stored):
    """Event and bid of the callbacks in their queue, oldest first."""
    jobs = [json.loads(raw) for raw in reversed(stored.lrange("queue:reports", 0, -1))]
    return [(job["args"][1]["event"], job["args"][0]) for job in jobs]


@pytest.mark.parametrize("number", [3, 4, 6, 7, 9, 12])
def test_a_member_that_is_killed_while_it_adds_jobs_repeats_that_and_no_callback_is_early_twice_or_lost(
    workers, config, ledger, stored, number
):
    """The member dies after a request: the lineage; opening its batch and a child; storing; closing both; and so on."""
    batch = watched(config)
    with batch:
        adds = Client(config).push({"class": "Adds", "args": []})
    dies = {**FAST, "DIE": f"after {number}"}
    doomed = workers.start("-c", "1", "-q", "default", text=DYING, environ=dies, wait=False)
    wait_for(lambda: not doomed.runs, 30)
    if number < LAST:
        assert reports(stored) == []
    workers.start("-c", "1", *QUEUES, app="app", environ=FAST)
    wait_for(lambda: ledger.words("success"), 40)
    wait_for(lambda: not waiting(stored, "default") and not waiting(stored, "reports") and not private(stored), 30)
    for event in ("complete", "success"):
        (note,) = ledger.notes(event)
        assert note.word == batch.bid
        assert note.time >= max(item.time for item in ledger.notes("added", jid=adds))
    assert len(ledger.counts("child")) == len(ledger.notes("child")) == len(batch.children())
    status = batch.status()
    assert (status.pending, status.pending_kids, status.open_blocks, status.death_at) == (0, 0, 0, None)


def test_kills_of_workers_push_each_callback_once_and_none_early(workers, config, ledger, stored):
    client, members, batches = Client(config), {}, []
    for number in range(8):
        batch = watched(config)
        with batch:
            members[batch.bid] = {
                *client.push_bulk({"class": "Member", "args": [[number, 0.03] for _ in range(25)]}),
            }
        batches.append(batch)
    fleet = [workers.start("-c", "3", *QUEUES, text=APP, environ=FAST, wait=False) for _ in range(2)]
    for number in range(1, 5):
        wait_for(lambda number=number: len(ledger.counts("ran")) > 35 * number, 60)
        fleet.pop(0).kill()
        fleet.append(workers.start("-c", "3", *QUEUES, app="app", environ=FAST, wait=False))
    wait_for(lambda: len(set(ledger.words("success"))) == len(batches), 90)
    wait_for(lambda: not waiting(stored) and not private(stored), 30)

    for batch in batches:
        ended = {item.jid: item.time for item in reversed(ledger.notes("ran"))}
        for event in ("complete", "success"):
            notes = [item for item in ledger.notes(event) if item.word == batch.bid]
            assert len({item.jid for item in notes}) == 1, "it may run twice, but it is one job"
            assert min(item.time for item in notes) >= max(ended[jid] for jid in members[batch.bid])
        status = batch.status()
        assert (status.total, status.pending, status.death_at) == (25, 0, None)
    assert ledger.words("death") == []
