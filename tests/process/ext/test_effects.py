"""A worker that is killed before or after any of its requests: a job, its lock and its slot leave together."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Locks, Unique, store as unique
from offsider.inspector import Controls
from offsider.storage import slots, working
from offsider.storage.effects import Effect, EffectCalls, joined
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
APP = """
    import os
    import select
    import signal
    import socket
    from offsider import Config, current_job, job
    from offsider.ext.concurrency_limits import ConcurrencyLimits
    from offsider.ext.unique import Unique
    from tests.process.ledger import note

    def configure(config: Config) -> None:
        config.use(Unique())
        config.use(ConcurrencyLimits())

    @job(name="Both", concurrency_limit=1, unique_for=600)
    def both():
        note("ran", current_job().jid)

    WHEN, NUMBER = os.environ.get("DIE", " 0").split(" ")
    seen = 0
    sendall = socket.socket.sendall

    def dying(sock, data, *args):
        global seen
        request = bytes(data)
        job_s = b"EVAL" in request and (b"offsider:unique:" in request or b"offsider:slots:Both" in request)
        seen += job_s
        if job_s and seen == int(NUMBER):
            if WHEN == "after":
                sendall(sock, data, *args)
                select.select([sock], [], [], 5)
            os.kill(os.getpid(), signal.SIGKILL)
        return sendall(sock, data, *args)

    socket.socket.sendall = dying
"""
#: Take the slot, write the outcome with both effects.
REQUESTS = 2


def load_scripts(stored):
    """Else each is sent twice, first by its hash."""
    effects = EffectCalls([[Effect(unique.RELEASE, []), Effect(slots.FREE_SLOTS, [])]])
    for script in (slots.TAKE_SLOTS, joined(working.ACK_AND_CLAIM, [], [], effects)[0]):
        stored.script_load(script.text)


@pytest.mark.parametrize(
    "die", [f"{when} {number}" for number in range(1, REQUESTS + 1) for when in ("before", "after")]
)
def test_a_killed_worker_leaves_a_job_with_its_lock_or_neither(workers, url, ledger, stored, die):
    load_scripts(stored)
    config = Config()
    config.redis.url = url
    config.use(Unique())
    config.use(ConcurrencyLimits())
    doomed = workers.start("-c", "1", text=APP, environ={**FAST, "DIE": die})
    jid = Client(config).push({"class": "Both", "args": [], "unique_for": 600})
    wait_for(lambda: not doomed.runs, 30)
    outcome_written = die == f"after {REQUESTS}"

    def jobs():
        return stored.llen("queue:default") + sum(stored.llen(key) for key in stored.keys("offsider:working:*"))

    assert [lock.jid for lock in Locks(config)] == ([] if outcome_written else [jid])
    wait_for(lambda: jobs() == len(Locks(config)))  # the parent may move the job between the two looks
    assert stored.zcard("offsider:slots:Both") == (die != "before 1" and not outcome_written)
    workers.start("-c", "1", app="app", environ=FAST)
    wait_for(lambda: not len(Locks(config)) and not Controls(config).holders("Both"), 60)
    assert set(ledger.counts("ran")) == {jid}
    assert Client(config).push({"class": "Both", "args": [], "unique_for": 600})
    Installation.of(config).close()
