"""Durable steps of jobs whose process is killed: before, in and after each step, its store and each outcome.

``TEST_STEP_KILLS`` is the minimum number of kills; by default there is one at each point.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import product

import pytest

from offsider import signal
from offsider.config.default import set_default_config
from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

STEPS = ("first", "second", "last")
POINTS = [
    *(f"{when} {name}" for name in STEPS for when in ("before", "in", "before the store of", "after the store of")),
    *(f"{when} outcome {number}" for number in range(3) for when in ("before", "after")),
]
KILLS = int(os.environ.get("TEST_STEP_KILLS", len(POINTS)))
ENVIRON = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "6", "OFFSIDER_WORKER_MAX_STRIKES": "0"}
#: The parent restarts a killed worker at once, however often.
WITHOUT_PAUSES = """
from offsider.cli.main import main
from offsider.cli.parent import worker_process
worker_process.FIRST_PAUSE_SECONDS = worker_process.MAX_PAUSE_SECONDS = 0.0
main()
"""
APP = """
    import os, re, select, signal, socket, time
    from datetime import timedelta
    from pathlib import Path
    import redis
    from offsider import current_job, job, step, wait_for
    from offsider.storage import steps
    from tests.process.ledger import note
    from tests.process.stored import private

    def die(point, jid):
        try:
            os.mkdir(f"{jid} {point}")  # once at each point
        except FileExistsError:
            return
        note("died", jid, point)
        os.kill(os.getpid(), signal.SIGKILL)

    # A job that fails, then waits, then succeeds

    def part(name):
        die(f"before {name}", current_job().jid)
        return step(name, run, name)

    def run(name):
        jid = current_job().jid
        die(f"in {name}", jid)
        value = time.time()
        note("ran", jid, f"{name} {value!r}")
        return value

    @job(name="Killed", retry_in=lambda count, error, payload: timedelta(seconds=0.01))
    def killed():
        first = part("first")
        if current_job().attempt == 1:
            raise ValueError("on purpose")
        second = part("second")
        wait_for("go on", timeout=3600)
        note("end", current_job().jid, [first, second, part("last")])

    def storing(redis, jid, entry, name, step, *, store=steps.store, **more):
        die(f"before the store of {name}", jid)
        is_stored = store(redis, jid, entry, name, step, **more)
        note("stored" if is_stored else "refused", jid, f"{name} {step.value!r}")
        die(f"after the store of {name}", jid)
        return is_stored

    steps.store = storing

    # Its outcome is the only request that has the key of its steps, besides those that read or store a step

    def sending(connection, data, *flags, send=socket.socket.sendall):
        request = bytes(data)
        found = re.search(rb"offsider:steps:([0-9a-f]{24})", request)
        if found is None or b"HGETALL" in request or b"step:" in request:
            return send(connection, data, *flags)
        jid = found[1].decode()
        number = next(number for number in range(3) if not os.path.exists(f"{jid} after outcome {number}"))
        die(f"before outcome {number}", jid)
        send(connection, data, *flags)
        if is_written(connection, jid):
            note("outcome", jid, number)
            die(f"after outcome {number}", jid)

    def is_written(connection, jid):
        client = redis.Redis.from_url(os.environ["REDIS_URL"])
        give_up_at = time.monotonic() + 60
        while any(jid.encode() in raw for raw in private(client)):
            replied, _, _ = select.select([connection], [], [], 0.005)
            if replied and b"NOSCRIPT" in connection.recv(65536, socket.MSG_PEEK):
                return False
            assert time.monotonic() < give_up_at
        return True

    socket.socket.sendall = sending
"""


@pytest.fixture(autouse=True)
def _default(config):
    before = set_default_config(config)
    yield
    set_default_config(before)


def test_no_kill_repeats_a_stored_step_or_skips_one(workers, stored, ledger):
    workers.start("-c", "1", "-q", "none", environ=ENVIRON)  # its scheduler survives
    parent = workers.start(
        "-p", "3", "-c", "1", text=APP, environ=ENVIRON, command=(sys.executable, "-c", WITHOUT_PAUSES, "worker")
    )
    parent.until_says("running <Capsule", times=3)  # a parent without a worker that has started exits
    jids = [push(stored, "Killed") for _ in range(-(-KILLS // len(POINTS)))]
    waits = set(jids)

    def all_ended() -> bool:
        for jid in [jid for jid in waits if (workers.folder / f"{jid} after outcome 1").exists()]:
            assert signal(jid, "go on")
            waits.remove(jid)
        return len([*workers.folder.glob("* after outcome 2")]) == len(jids)

    wait_for(all_ended, 60 + KILLS)
    parent.stopped()

    assert sorted((note.jid, note.word) for note in ledger.notes("died")) == sorted(product(jids, POINTS))
    assert not ledger.notes("refused")
    for jid in jids:
        notes = ledger.notes(jid=jid)
        values = []
        for name in STEPS:
            events = [(note.event, note.word) for note in notes if note.word.startswith(f"{name} ")]
            # The first run dies before its store. The second one is stored, and there is no other.
            assert [event for event, _ in events] == ["ran", "ran", "stored"]
            assert events[1][1] == events[2][1]
            values.append(float(events[2][1].split()[1]))
        ends = [json.loads(note.word) for note in notes if note.event == "end"]
        assert ends
        assert all(end == values for end in ends)
        assert [note.word for note in notes if note.event == "outcome"] == ["0", "1", "2"]
        assert notes[-2].event == "outcome"
    assert waiting(stored) == private(stored) == []
    assert [sorted_set(stored, name) for name in ("retry", "schedule", "dead")] == [[], [], []]
    assert not stored.keys("offsider:steps:*")
