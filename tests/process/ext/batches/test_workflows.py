"""Workers that are killed: each step of a workflow is pushed once, after those before it, with their results."""

from __future__ import annotations

from itertools import pairwise

import pytest

from offsider import job
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
    from tests.process.dying import die_as_told
{APP}
    die_as_told(lambda data: b"-steps" in data)
"""


@pytest.fixture
def config(config):
    config.use(Batches())
    return config


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


@pytest.mark.parametrize("dies", ["before 2", "after 4"])
def test_a_worker_that_dies_at_a_request_about_a_step_loses_and_repeats_no_step(workers, ledger, stored, push, dies):
    batch = push(1)
    doomed = workers.start("-c", "1", text=DYING, environ={**FAST, "DIE": dies}, wait=False)
    wait_for(lambda: not doomed.runs)
    workers.start("-c", "1", app="app", environ=FAST)
    wait_for(lambda: batch.status().success_at and not waiting(stored) and not private(stored))
    check(ledger, 1)
