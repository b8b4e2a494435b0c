"""Servers of managed offerings lack commands: workers use others, and still run jobs."""

from __future__ import annotations

import pytest
import redis

from tests.process.stored import push
from tests.waiting import wait_for


@pytest.mark.parametrize(
    "missing, message",
    [
        ("CLIENT", "idle threads poll"),  # no CLIENT UNBLOCK
        ("HELLO", "idle threads block in BLMOVE"),
        ("BLMOVE", "idle threads poll"),
        ("INFO", "this user may not call INFO, so these were not checked"),
        ("CONFIG", "running <Capsule"),
    ],
)
def test_jobs_run_on_a_server_without_a_command(workers, ledger, make_server, missing, message):
    server = make_server(without=[missing])
    workers.url = server.url
    worker = workers.start("-c", "1")
    with redis.Redis.from_url(server.url, protocol=2) as client:
        first = push(client, "Short")
        wait_for(lambda: ledger.notes("end", jid=first))
        second = push(client, "Short")
        wait_for(lambda: ledger.notes("end", jid=second))
    assert message in worker.output
    worker.stopped()
