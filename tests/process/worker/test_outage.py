"""The server fails under load: workers wait, report it once, and resume without losing a job."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter

import pytest
import redis

from offsider.embedded import EmbeddedServer
from offsider.embedded.folder import free_port
from tests.conftest import binary_of, short_folder
from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for


@pytest.fixture(params=["redis7", "valkey"])
def restarting(request, workers):
    """A server with each write on disk, that can be killed and started again at the same port."""
    binary = binary_of(request.param)
    with short_folder() as folder:
        port = free_port()

        def make():
            return EmbeddedServer(folder, binary=binary, port=port, config={"appendfsync": "always"}).start()

        made = Restarting(make)
        workers.url = made.server.url
        try:
            yield made
        finally:
            workers.close()
            made.server.stop()


class Restarting:
    def __init__(self, make):
        self.make = make
        self.server = make()
        self.client = redis.Redis.from_url(self.server.url, socket_timeout=5)

    def kill(self):
        pid = self.server.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.server.pid is None)
        self.server.stop()

    def start(self):
        self.server = self.make()
        wait_for(self._answers)

    def _answers(self):
        try:
            return self.client.ping()
        except redis.RedisError:
            return False


def test_a_killed_server_loses_nothing_and_workers_resume_within_seconds(workers, restarting, ledger):
    jids: set[str] = set()
    fleet = [workers.start("-c", "3") for _ in range(2)]

    def hand_out(jobs):
        pushed = {push(restarting.client, "Short", number, 0.02) for number in range(jobs)}
        jids.update(pushed)
        return pushed

    for pause in (1.5, 0.0):
        # Of jobs of their own for each wait: on a busy machine all may have ended before the kill.
        working_off = hand_out(200)
        wait_for(lambda working_off=working_off: len(working_off & ledger.counts("end").keys()) > 60)
        restarting.kill()
        gone = time.monotonic()
        wait_for(lambda gone=gone, pause=pause: time.monotonic() - gone >= pause)
        restarting.start()
        afterwards = hand_out(12)
        wait_for(lambda afterwards=afterwards: afterwards <= ledger.counts("end").keys())
    wait_for(lambda: set(ledger.counts("end")) == jids, 60)
    wait_for(lambda: not private(restarting.client), 20)
    for worker in fleet:
        worker.stopped()
        # Two outages: each part that talks to Redis reports each of them once, and not once a second.
        reports = Counter(re.findall(r": ([\w ]+): RedisUnavailable", worker.output))
        assert reports
        assert max(reports.values()) <= 2, worker.output
        assert "Redis is online, " in worker.output
    client = restarting.client
    assert waiting(client) == private(client) == sorted_set(client, "retry") == sorted_set(client, "dead") == []
    assert sum(ledger.counts("end").values()) - len(jids) <= 2 * 2 * 3


def test_a_job_that_ends_during_an_outage_is_settled_afterwards(workers, restarting, ledger):
    jid = push(restarting.client, "Short", 1, 1.0)
    worker = workers.start("-c", "1")
    wait_for(lambda: ledger.notes("start", jid=jid))
    restarting.kill()
    wait_for(lambda: ledger.notes("end", jid=jid))
    worker.until_says("RedisUnavailable")
    restarting.start()
    wait_for(lambda: private(restarting.client) == [], 20)
    wait_for(lambda: restarting.client.get("stat:processed") == b"1", 25)
    worker.stopped()
    assert len(ledger.notes("start")) == 1
    assert waiting(restarting.client) == []


def test_a_stop_during_an_outage_is_in_time_and_the_job_is_requeued_later(workers, restarting, ledger):
    environ = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
    jid = push(restarting.client, "Long", 60)
    # Not measured: coverage may crash when it saves its data while threads are still there.
    worker = workers.start("-c", "1", "-t", "1", environ=environ, measured=False)
    wait_for(lambda: ledger.notes("start", jid=jid))
    restarting.kill()
    before = time.monotonic()
    worker.send("TERM")
    assert worker.ended() == 0
    assert time.monotonic() - before < 1 + 4.5
    restarting.start()
    assert len(private(restarting.client)) == 1
    workers.start("-c", "1", environ=environ)
    wait_for(lambda: ledger.notes("end", jid=jid), 30)


def test_lost_scripts_and_connections_are_restored(workers, stored, ledger):
    workers.start("-c", "2")
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))
    stored.script_flush()
    stored.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    jid = push(stored, "Short", 2)
    wait_for(lambda: ledger.notes("end", jid=jid), 10)
    wait_for(lambda: private(stored) == [], 15)
    assert len(ledger.notes("start", jid=jid)) == 1


def test_while_the_server_hangs_no_owner_is_declared_dead(workers, make_server, ledger):
    """Its clock advances while heartbeats cannot be written: all owners look dead when it wakes (rule 7)."""
    server = make_server(kind="valkey")
    workers.url = server.url
    environ = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
    with redis.Redis.from_url(server.url) as client:
        push(client, "Short", 1, 9.0)
        push(client, "Short", 2, 9.0)
        for _ in range(2):
            workers.start("-c", "1", environ=environ)
        wait_for(lambda: len(ledger.notes("start")) == 2)
        os.kill(server.pid, signal.SIGSTOP)
        until = time.monotonic() + 4.5
        wait_for(lambda: time.monotonic() > until)
        os.kill(server.pid, signal.SIGCONT)
        wait_for(lambda: len(ledger.notes("end")) == 2)
        wait_for(lambda: private(client) == [])
        assert waiting(client) == []
    assert len(ledger.notes("start")) == 2
    assert ledger.notes("reclaimed") == ledger.notes("lost ownership") == []
