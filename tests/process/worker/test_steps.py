"""Durable steps over crashes, failures, stops and waits: which steps ran, and how often."""

from __future__ import annotations

import os
import time
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from offsider import signal
from offsider.config.default import set_default_config
from offsider.core.payload import encode
from tests.process.stored import payload, push, push_raw, sorted_set, waiting
from tests.waiting import wait_for

#: Jobs that sleep at the same time: ``TEST_SLEEPERS=10000`` takes a minute.
SLEEPERS = int(os.environ.get("TEST_SLEEPERS", "1000"))
FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "6"}
APP = """
    import asyncio, time
    from datetime import timedelta
    from pathlib import Path
    from offsider import astep, await_for, current_job, job, sleep_until, step, wait_for
    from tests.process.ledger import note

    def ran(name, value=None, lasts=""):
        # The step that lasts ends when its worker stops, or if it runs again after a kill.
        note("begun", current_job().jid, name)
        while name == lasts and not (current_job().stopping or current_job().interrupted_count):
            time.sleep(0.02)
        note("ran", current_job().jid, f"{name} {step.key}")
        return value

    async def aran(name, value=None):
        await asyncio.sleep(0)
        return ran(name, value)

    @job(name="Fulfil", retry_in=lambda count, error, payload: timedelta(seconds=0.1))
    def fulfil(lasts="", fails=False):
        charge = step("charge", ran, "charge", {"cents": 4900}, lasts)
        if fails and current_job().attempt == 1:
            raise ValueError("on purpose")
        label = step("label", ran, "label", f"for {charge['cents']}", lasts)
        note("end", current_job().jid, label)

    @job(name="AsyncFulfil", retry_in=lambda count, error, payload: timedelta(seconds=0.1))
    async def async_fulfil(lasts="", fails=False):
        charge = await astep("charge", aran, "charge", {"cents": 4900})
        if fails and current_job().attempt == 1:
            raise ValueError("on purpose")
        note("end", current_job().jid, await astep("label", aran, "label", f"for {charge['cents']}"))

    @job(name="Order")
    def order(seconds):
        step("invoice", ran, "invoice")
        paid = wait_for("paid", timeout=seconds)
        step("ship", ran, "ship")
        note("end", current_job().jid, paid["cents"])

    @job(name="AsyncOrder")
    async def async_order(seconds):
        await astep("invoice", aran, "invoice")
        paid = await await_for("paid", timeout=seconds)
        note("end", current_job().jid, paid["cents"])

    @job(name="Nap")
    def nap():
        step("before", ran, "before")
        sleep_until(float(Path("due").read_text()))
        step("after", ran, "after")
        note("end", current_job().jid)
"""


@pytest.fixture(autouse=True)
def _default(config):
    before = set_default_config(config)
    yield
    set_default_config(before)


def ran(ledger) -> list[str]:
    return [word.split()[0] for word in ledger.words("ran")]


@pytest.mark.parametrize("name", ["Fulfil", "AsyncFulfil"])
def test_a_failed_job_does_not_repeat_its_finished_steps(workers, stored, ledger, name):
    jid = push(stored, name, "", True)
    workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("end"))
    assert ledger.words("ran") == [f"charge {jid}:charge", f"label {jid}:label"]
    assert ledger.words("end") == ["for 4900"]
    wait_for(lambda: not stored.exists(f"offsider:steps:{jid}"))


def test_a_killed_job_repeats_only_the_step_that_ran(workers, stored, ledger):
    jid = push(stored, "Fulfil", "label")
    doomed = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.words("begun") == ["charge", "label"])
    doomed.kill()
    workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("end", jid=jid))
    assert ran(ledger) == ["charge", "label"]
    assert ledger.words("begun") == ["charge", "label", "label"]


def test_a_stop_ends_a_job_before_its_next_step(workers, stored, ledger):
    jid = push(stored, "Fulfil", "charge")
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.words("begun") == ["charge"])
    worker.stopped()
    assert [job["jid"] for job in waiting(stored)] == [jid]
    assert ran(ledger) == ["charge"]
    workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("end"))
    assert ran(ledger) == ["charge", "label"]


def test_a_job_from_the_dead_set_does_not_repeat_its_finished_steps(workers, stored, ledger):
    jid = push(stored, "Fulfil", "", True, retry=0)
    workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: len(sorted_set(stored, "dead")) == 1)
    assert stored.ttl(f"offsider:steps:{jid}") > 15_000_000  # as long as the dead set
    (raw,) = stored.zrange("dead", 0, -1)
    stored.zrem("dead", raw)
    stored.lpush("queue:default", raw)
    wait_for(lambda: ledger.notes("end"))
    assert ran(ledger) == ["charge", "label"]


@pytest.mark.parametrize("name", ["Order", "AsyncOrder"])
@pytest.mark.parametrize("when", ["before", "while it waits"])
def test_a_signal_ends_a_wait_whenever_it_comes(workers, stored, ledger, name, when):
    jid = push(stored, name, 3600)
    if when == "before":
        assert signal(jid, "paid", {"cents": 7})
    workers.start("-c", "1", text=APP, environ=FAST)
    if when != "before":
        (job,) = wait_for(lambda: sorted_set(stored, "schedule"))
        assert (job["jid"], "rescheduled_count" in job) == (jid, False)
        assert signal(jid, "other")
        assert signal(jid, "paid", {"cents": 7})
    wait_for(lambda: ledger.notes("end"))
    assert ledger.words("end") == ["7"]
    assert ran(ledger).count("invoice") == 1


def test_a_wait_without_a_signal_fails_in_time(workers, stored, ledger):
    push(stored, "Order", 1.0, retry=0)
    workers.start("-c", "1", text=APP, environ=FAST)
    (job,) = wait_for(lambda: sorted_set(stored, "dead"))
    assert (job["error_class"], "'paid' has not come in time" in job["error_message"]) == (
        "offsider.core.errors.SignalTimeout",
        True,
    )
    assert ran(ledger) == ["invoice"]


def test_many_jobs_sleep_and_hold_no_thread(workers, stored, ledger):
    worker = workers.start("-c", "2", text=APP, environ=FAST)
    file, late = workers.folder / "due", time.time() + 3600
    file.write_text(f"{late}")
    jobs = [payload("Nap") for _ in range(SLEEPERS)]
    push_raw(stored, *map(encode, jobs))
    wait_for(lambda: stored.zcard("schedule") == SLEEPERS)  # all of them at the same time
    assert len([*Path(f"/proc/{worker.pid}/task").iterdir()]) < 20  # the worker's own
    assert stored.zrange("schedule", 0, 0, withscores=True)[0][1] > late - 1
    due = time.time() + 1
    file.write_text(f"{due}")
    stored.zadd("schedule", dict.fromkeys(stored.zrange("schedule", 0, -1), due), xx=True)
    wait_for(lambda: ledger.path.read_bytes().count(b"\nend\t") == SLEEPERS, 60 + SLEEPERS / 100)
    ran = Counter((note.jid, note.word.split()[0]) for note in ledger.notes("ran"))
    assert ran == Counter(product([job["jid"] for job in jobs], ["before", "after"]))
    assert min(note.time for note in ledger.notes("end")) >= due
    wait_for(lambda: not stored.keys("offsider:steps:*"))
    assert not stored.zcard("schedule")
