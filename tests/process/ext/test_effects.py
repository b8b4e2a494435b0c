"""A worker that is killed before or after any of its requests: job, lock, slot and result change together."""

from __future__ import annotations

import pytest

from offsider import ResultTimeout
from offsider.client import Client
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.results import Results, store as results
from offsider.ext.unique import Locks, Unique, locks
from offsider.inspector import Controls
from offsider.storage import slots, working
from offsider.storage.effects import Effect, EffectCalls, joined
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
APP = """
    from offsider import Config, current_job, job
    from offsider.ext.concurrency_limits import ConcurrencyLimits
    from offsider.ext.results import Results
    from offsider.ext.unique import Unique
    from tests.process.dying import die_as_told
    from tests.process.ledger import note

    def configure(config: Config) -> None:
        config.use(Unique())
        config.use(ConcurrencyLimits())
        config.use(Results())

    @job(name="Both", concurrency_limit=1, unique_for=600, keep_result=600)
    def both():
        note("ran", current_job().jid)
        return "all of it"

    die_as_told(lambda data: b"EVAL" in data and (b"offsider:unique:" in data or b"offsider:slots:Both" in data))
"""
#: Take the slot, write the outcome with all effects.
REQUESTS = 2


def load_scripts(stored):
    """Else each is sent twice, first by its hash."""
    effects = EffectCalls([[Effect(script, []) for script in (results.SETTLE, locks.RELEASE, slots.FREE_SLOTS)]])
    for script in (slots.TAKE_SLOTS, joined(working.ACK_AND_CLAIM, [], [], effects)[0]):
        stored.script_load(script.text)


@pytest.mark.parametrize(
    "die", [f"{when} {number}" for number in range(1, REQUESTS + 1) for when in ("before", "after")]
)
def test_a_killed_worker_leaves_a_job_with_its_lock_or_neither(workers, config, ledger, stored, die):
    load_scripts(stored)
    config.use(Unique())
    config.use(ConcurrencyLimits())
    config.use(Results())
    doomed = workers.start("-c", "1", text=APP, environ={**FAST, "DIE": die})
    jid = Client(config).push({"class": "Both", "args": [], "unique_for": 600, "keep_result": 600})
    wait_for(lambda: not doomed.runs)
    outcome_written = die == f"after {REQUESTS}"

    def jobs():
        return stored.llen("queue:default") + sum(stored.llen(key) for key in stored.keys("offsider:working:*"))

    # The server may not have run the last request yet when its worker is dead.
    wait_for(lambda: [lock.jid for lock in Locks(config)] == ([] if outcome_written else [jid]))
    wait_for(lambda: jobs() == len(Locks(config)))  # the parent may move the job between the two looks
    assert stored.zcard("offsider:slots:Both") == (die != "before 1" and not outcome_written)
    if outcome_written:
        assert jid.result(timeout=0) == "all of it"
    else:
        with pytest.raises(ResultTimeout):
            jid.result(timeout=0)
    workers.start("-c", "1", app="app", environ=FAST)
    assert jid.result(timeout=60) == "all of it"
    wait_for(lambda: not len(Locks(config)) and not Controls(config).holders("Both"), 60)
    assert set(ledger.counts("ran")) == {jid}
    assert Client(config).push({"class": "Both", "args": [], "unique_for": 600})
