"""A worker that is killed before or after any of its requests: a job has ended with a result, or will run again."""

from __future__ import annotations

import pytest

from offsider import Config, ResultTimeout
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.results import Results, store as results
from offsider.storage import working
from offsider.storage.effects import Effect, EffectCalls, joined
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
APP = """
    import os
    import select
    import signal
    from offsider import Config, job
    from offsider.ext.results import Results
    from redis.connection import AbstractConnection

    def configure(config: Config) -> None:
        config.use(Results())

    @job(name="Kept", keep_result=600)
    def kept():
        return "all of it"

    WHEN, NUMBER = os.environ.get("DIE", " 0").split(" ")
    seen = 0
    send = AbstractConnection.send_packed_command

    def dying(connection, command, **options):
        global seen
        request = command if isinstance(command, bytes) else b"".join(command)
        job_s = b"EVAL" in request and b"offsider:results:job:" in request
        seen += job_s
        if job_s and seen == int(NUMBER):
            if WHEN == "after":
                send(connection, command, **options)
                select.select([connection._sock], [], [], 5)
            os.kill(os.getpid(), signal.SIGKILL)
        return send(connection, command, **options)

    AbstractConnection.send_packed_command = dying
"""
#: Write that the job runs, write the outcome with the result.
REQUESTS = 2


def load_scripts(stored):
    """Else each is sent twice, first by its hash."""
    for script in (
        results.BEGIN,
        joined(working.ACK_AND_CLAIM, [], [], EffectCalls([[Effect(results.SETTLE, [])]]))[0],
    ):
        stored.script_load(script.text)


@pytest.mark.parametrize(
    "die", [f"{when} {number}" for number in range(1, REQUESTS + 1) for when in ("before", "after")]
)
def test_a_killed_worker_leaves_a_job_that_will_run_or_its_result(workers, url, stored, die):
    load_scripts(stored)
    config = Config()
    config.redis.url = url
    config.use(Results())
    doomed = workers.start("-c", "1", text=APP, environ={**FAST, "DIE": die})
    jid = Client(config).push({"class": "Kept", "args": [], "keep_result": 600})
    wait_for(lambda: not doomed.runs, 30)
    jobs = stored.llen("queue:default") + sum(stored.llen(key) for key in stored.keys("offsider:working:*"))
    if die == f"after {REQUESTS}":
        assert jobs == 0
        assert jid.result(timeout=0) == "all of it"
        return
    assert jobs == 1
    with pytest.raises(ResultTimeout):
        jid.result(timeout=0)
    workers.start("-c", "1", text=APP, environ=FAST)
    assert jid.result(timeout=30) == "all of it"
    Installation.of(config).close()
