"""Workers that are killed: each step of a workflow is pushed once, after those before it, with their results."""

from __future__ import annotations

from itertools import pairwise

import pytest

from offsider import Config, job
from offsider.config.installation import Installation
from offsider.ext.batches import RESULT, Batches, chain, group
from offsider.jobs import registry
from tests.process.stored import private, waiting
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
APP = """
    import time
    from offsider import Config, current_job, job
    from offsider.ext.batches import Batches
    from tests.process.ledger import note

    def configure(config: Config) -> None:
        config.use(Batches())

    @job(name="Load")
    def load(flow, number):
        time.sleep(0.02)
        note("load", current_job().jid, flow)
        return number

    @job(name="Add")
    def add(flow, numbers):
        note("add", current_job().jid, flow)
        return sum(numbers)

    @job(name="Store")
    def store(flow, total):
        note("store", current_job().jid, f"{flow} {total}")
"""
#: Dies before or after its request number N that writes about the steps of a workflow.
DYING = f"""
    import os
    import select
    import signal
    import socket
{APP}
    WHEN, NUMBER = os.environ.get("DIE", " 0").split(" ")
    seen = 0
    sendall = socket.socket.sendall

    def dying(sock, data, *args):
        global seen
        steps = b"-steps" in bytes(data)
        seen += steps
        if steps and seen == int(NUMBER):
            if WHEN == "after":
                sendall(sock, data, *args)
                select.select([sock], [], [], 5)
            os.kill(os.getpid(), signal.SIGKILL)
        return sendall(sock, data, *args)

    socket.socket.sendall = dying
"""


@pytest.fixture
def config(url):
    config = Config()
    config.redis.url = url
    config.use(Batches())
    yield config
    Installation.of(config).close()


@pytest.fixture
def push(config):
    """Pushes a workflow: three jobs at the same time, then their sum, then a step with it."""
    with registry.isolated():
        load = job(name="Load")(lambda flow, number: number)
        add = job(name="Add")(lambda flow, numbers: 0)
        store = job(name="Store")(lambda flow, total: None)

    def pushed(flow):
        first = group(load.call(flow, number) for number in (flow, 10, 100))
        made = chain(first, add.call(flow, RESULT), store.call(flow, RESULT), config=config)
        made.enqueue()
        return made.batch

    return pushed


def check(ledger, flow):
    """Each step was one job, although it may have run twice, and ran after those before it."""
    assert {note.word for note in ledger.notes("store") if note.word.startswith(f"{flow} ")} == {f"{flow} {flow + 110}"}
    firsts = []
    for event, count in (("load", 3), ("add", 1), ("store", 1)):
        notes = [note for note in ledger.notes(event) if note.word.split()[0] == str(flow)]
        assert len({note.jid for note in notes}) == count
        firsts.append((min(note.time for note in notes), max(note.time for note in notes[:count])))
    assert all(before[0] <= after[0] for before, after in pairwise(firsts))


@pytest.mark.parametrize("dies", [f"{when} {number}" for number in range(1, 9) for when in ("before", "after")])
def test_a_worker_that_dies_at_a_request_about_a_step_loses_and_repeats_no_step(workers, ledger, stored, push, dies):
    batch = push(1)
    doomed = workers.start("-c", "1", text=DYING, environ={**FAST, "DIE": dies}, wait=False)
    wait_for(lambda: not doomed.runs, 30)
    workers.start("-c", "1", app="app", environ=FAST)
    wait_for(lambda: batch.status().success_at and not waiting(stored) and not private(stored), 40)
    check(ledger, 1)


def test_workflows_end_although_workers_are_killed_again_and_again(workers, ledger, stored, push):
    batches = [push(flow) for flow in range(60)]
    fleet = [workers.start("-c", "3", text=APP, environ=FAST, wait=False) for _ in range(2)]
    for number in range(1, 5):
        wait_for(lambda number=number: len(ledger.counts("load")) > 32 * number, 60)
        fleet.pop(0).kill()
        fleet.append(workers.start("-c", "3", app="app", environ=FAST, wait=False))
    wait_for(lambda: all(batch.status().success_at for batch in batches), 90)
    wait_for(lambda: not waiting(stored) and not private(stored), 30)
    for flow, batch in enumerate(batches):
        check(ledger, flow)
        assert (batch.status().pending, batch.status().death_at) == (0, None)
