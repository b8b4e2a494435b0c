"""The server fails under load: workers wait, report it once, and resume without losing a job."""

from __future__ import annotations

import re
import time
from collections import Counter

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for


def test_a_killed_server_loses_nothing_and_workers_resume_within_seconds(workers, server, ledger):
    jids: set[str] = set()
    fleet = [workers.start("-c", "3") for _ in range(2)]

    def hand_out(jobs):
        pushed = {push(server.raw, "Short", number, 0.02) for number in range(jobs)}
        jids.update(pushed)
        return pushed

    for pause in (1.5, 0.0):
        # Of jobs of their own for each wait: on a busy machine all may have ended before the kill.
        working_off = hand_out(200)
        wait_for(lambda working_off=working_off: len(working_off & ledger.counts("end").keys()) > 60)
        server.kill()
        gone = time.monotonic()
        wait_for(lambda gone=gone, pause=pause: time.monotonic() - gone >= pause)
        server.start_again()
        afterwards = hand_out(12)
        wait_for(lambda afterwards=afterwards: afterwards <= ledger.counts("end").keys())
    wait_for(lambda: set(ledger.counts("end")) == jids, 60)
    wait_for(lambda: not private(server.raw), 20)
    for worker in fleet:
        worker.stopped()
        # Two outages: each part that talks to Redis reports each of them once, and not once a second.
        reports = Counter(re.findall(r": ([\w ]+): RedisUnavailable", worker.output))
        assert reports
        assert max(reports.values()) <= 2, worker.output
        assert "Redis is online, " in worker.output
    client = server.raw
    assert waiting(client) == private(client) == sorted_set(client, "retry") == sorted_set(client, "dead") == []
    assert sum(ledger.counts("end").values()) - len(jids) <= 2 * 2 * 3


def test_a_job_that_ends_during_an_outage_is_settled_afterwards(workers, server, ledger):
    jid = push(server.raw, "Short", 1, 1.0)
    worker = workers.start("-c", "1")
    wait_for(lambda: ledger.notes("start", jid=jid))
    server.kill()
    wait_for(lambda: ledger.notes("end", jid=jid))
    worker.until_says("RedisUnavailable")
    server.start_again()
    wait_for(lambda: private(server.raw) == [], 20)
    wait_for(lambda: server.raw.get("stat:processed") == b"1", 25)
    worker.stopped()
    assert len(ledger.notes("start")) == 1
    assert waiting(server.raw) == []
