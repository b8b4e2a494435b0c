"""An outage of the server: every acknowledged push runs, though the pusher is killed again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from offsider.client.spool import Spool
from tests.process.ledger import VARIABLE
from tests.process.workers import ROOT
from tests.waiting import wait_for

#: Duration of the outage; the release is judged with 60.
SECONDS = float(os.environ.get("OFFSIDER_TEST_OUTAGE_SECONDS", "6"))
RATE = 500


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "spool.sqlite"


@pytest.fixture
def environ(server, spool, workers):
    return os.environ | {
        "REDIS_URL": server.url, "OFFSIDER_CLIENT_SPOOL": str(spool), VARIABLE: str(workers.ledger.path)
    }  # fmt: skip


def test_every_acknowledged_push_of_an_outage_runs(workers, *, server, ledger, spool, environ, tmp_path):
    stop = tmp_path / "stop"
    pushers = []

    def start():
        command = [sys.executable, "-m", "tests.process.pusher", str(RATE), str(stop)]
        with (tmp_path / "pusher.log").open("ab") as log:
            pushers.append(subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log))
        pid = pushers[-1].pid
        wait_for(lambda: ledger.notes("acknowledged", pid=pid), what="a push")

    def kill():
        pushers[-1].send_signal(signal.SIGKILL)
        pushers[-1].wait()

    try:
        start()
        wait_for(lambda: len(ledger.notes("acknowledged")) > RATE / 2, what="pushes to the server")
        server.kill()
        gone = time.monotonic()
        for part in (1, 2):
            wait_for(lambda part=part: time.monotonic() - gone > SECONDS * part / 3, SECONDS + 60)
            kill()
            start()
        wait_for(lambda: time.monotonic() - gone > SECONDS, SECONDS + 60)
        server.start_again()
        wait_for(lambda: server.raw.llen("queue:default") > 1, what="rows that are moved")
        kill()  # between the storing and the deletion of rows, if it happens so
        start()
        worker = workers.start("-c", "5", environ={"OFFSIDER_CLIENT_SPOOL": str(spool)})
        wait_for(lambda: len(ledger.notes("acknowledged", pid=pushers[-1].pid)) > RATE, what="pushes after the outage")
        stop.touch()
        assert pushers[-1].wait(30) == 0
    finally:
        for pusher in pushers:
            pusher.kill()
            pusher.wait()
    acknowledged = {note.jid for note in ledger.notes("acknowledged")}
    tried = {note.jid for note in ledger.notes("try")}
    wait_for(lambda: acknowledged <= ledger.counts("end").keys(), 120, what="all acknowledged pushes")
    file = Spool(str(spool), 1)
    wait_for(lambda: not file.servers() and not server.raw.llen("queue:default"), what="the last rows")
    worker.stopped()
    runs = ledger.counts("end")
    doubt = {note.jid for note in ledger.notes("doubt")}
    print(
        f"{SECONDS:g} s without a server: {len(tried)} pushes, {len(acknowledged)} acknowledged, {len(doubt)} "
        f"ambiguous, {len(ledger.notes('refused'))} refused, {len(tried - acknowledged)} in doubt; "
        f"{sum(runs.values())} runs, {sum(count > 1 for count in runs.values())} jobs twice"
    )
    assert len(acknowledged) > SECONDS * RATE / 3
    assert runs.keys() <= tried
    assert {jid for jid, count in runs.items() if count > 1} <= tried - acknowledged
    assert ledger.notes("refused") == []
    assert len(tried - acknowledged) <= len(doubt) + 3  # one for each kill
    file.close()


FULL_DISK = """
    import resource, sys
    from offsider.client import Client
    from offsider.core.errors import RedisUnavailable

    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    stored = 0
    for number in range(10_000):
        try:
            Client.of().push({"class": "Short", "args": ["x" * 1_000]})
            stored += 1
        except RedisUnavailable as error:
            print(stored, error.ambiguous, error, sep="\\n")
            break
"""


def test_a_full_disk_is_a_clear_error_and_keeps_the_pushes_before_it(server, environ, spool):
    server.kill()
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK)]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=100, check=True)
    stored, ambiguous, error = ended.stdout.strip().split("\n")
    assert ambiguous == "False"
    assert "cannot be reached" in error
    assert f"the spool {spool} cannot be used: " in error
    assert "free space on its disk" in error
    file = Spool(str(spool), 1)
    assert file.waiting()["main"][0] == int(stored) > 10
    file.close()
    server.start_again()
