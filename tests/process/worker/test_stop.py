"""TERM and INT: running jobs get their time, unfinished ones are requeued, and the process exits in time."""

from __future__ import annotations

import os
import signal
import time

import pytest
import redis

from offsider.worker.run.interrupt import OBSTACLE
from tests.faults import FaultProxy
from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

TIMEOUT_SECONDS = 6
#: The promise is 4 s, and a worker exits with 1 after them. The rest is for this process, which may see the end late.
MARGIN_SECONDS = 9.0


def test_a_stop_lets_a_running_job_finish_and_ends_with_code_0(workers, stored, ledger):
    jid = push(stored, "Held")
    worker = workers.start("-c", "2")
    wait_for(lambda: ledger.notes("start", jid=jid))
    worker.send("TERM")
    worker.until_says("quiet: this worker claims no new jobs")  # and has counted those that ended before
    (workers.folder / "go").touch()
    assert worker.ended() == 0
    assert len(ledger.notes("end", jid=jid)) == 1
    assert waiting(stored) == private(stored) == sorted_set(stored, "retry") == []
    assert stored.scard("processes") == stored.hlen("offsider:owners") == 0
    assert worker.output.rstrip().endswith("stopped: 1 job finished, 0 requeued, 0 failed")


def test_at_the_deadline_all_capsules_give_their_jobs_back_together(workers, stored, ledger):
    """Two capsules, one deadline: waiting for one after the other would take 12 s."""
    app = workers.write("""
        from tests.process.jobs import *  # the same jobs
        from tests.process import jobs

        def configure(config):
            jobs.configure(config)
            config.capsule("second", concurrency=3, queues=["second"])
    """)
    kinds = {"Long": [40], "Async": [40], "Wrapping": [40], "Receiving": [], "Locked": []}
    jids = {push(stored, name, *args, queue=queue) for queue in ("default", "second") for name, args in kinds.items()}
    worker = workers.start("-c", "5", "-t", str(TIMEOUT_SECONDS), app=app, measured=False)
    wait_for(lambda: len(ledger.notes("start")) == 9)  # the coroutines occupy no thread

    before = time.monotonic()
    worker.send("TERM")
    assert worker.ended() == 0
    took = time.monotonic() - before
    assert TIMEOUT_SECONDS - 1 <= took < TIMEOUT_SECONDS + MARGIN_SECONDS

    started = set(ledger.counts("start"))
    left = waiting(stored) + waiting(stored, "second")
    assert {job["jid"] for job in left} == jids
    assert {job["jid"] for job in left if job.get("interrupted_count") == 1} == started
    assert private(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []
    assert stored.get("stat:failed") in (None, b"0")

    for job in left:  # those that never ran would only be interrupted now
        if job["jid"] not in started:
            stored.lrem(f"queue:{job['queue']}", 0, _raw(stored, job))
    workers.start("-q", "default", "-q", "second")
    wait_for(lambda: set(ledger.counts("end")) == started)
    assert set(ledger.counts("start").values()) == {2}


def _raw(stored, job):
    return next(raw for raw in stored.lrange(f"queue:{job['queue']}", 0, -1) if job["jid"].encode() in raw)


UNDONE = {"Long": [40], "Async": [40], "Wrapping": [40], "Cleaning": [40], "Receiving": [], "Locked": []}
STUBBORN = {"Stubborn": [40], "StubbornAsync": [40]}


@pytest.mark.parametrize(
    "jobs", [UNDONE | STUBBORN, {"BlockingAsync": []}], ids=["all kinds", "a coroutine that blocks its loop"]
)
def test_a_job_unfinished_at_the_deadline_runs_again_elsewhere(workers, stored, ledger, jobs):
    jids = {push(stored, name, *args): name for name, args in jobs.items()}
    worker = workers.start("-c", "8", "-t", "1", measured=False)
    wait_for(lambda: len(ledger.notes("start")) == len(jids))
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 1 + MARGIN_SECONDS

    left = {job["jid"]: job for job in waiting(stored)}
    assert left.keys() == jids.keys()
    assert all(job["interrupted_count"] == 1 and "retry_count" not in job for job in left.values())
    assert private(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []
    assert stored.hlen("offsider:owners") == 0
    if "Async" in jobs:
        assert [jids[note.jid] for note in ledger.notes("cancelled")] == ["Async"]
    if "Cleaning" in jobs and not OBSTACLE:  # else its thread runs until the process ends
        assert [jids[note.jid] for note in ledger.notes("cleaned")] == ["Cleaning"]

    workers.start("-c", "8")
    wait_for(lambda: set(ledger.counts("end")) == set(jids))
    assert set(ledger.counts("start").values()) == {2}


@pytest.mark.not_on_cluster("the promise is about one server")
@pytest.mark.parametrize(
    "how, options",
    [("frozen", ("-p", "2")), ("refused", ())],
    ids=["frozen, with two processes", "refused"],
)
def test_a_stop_is_in_time_also_without_the_server(workers, make_server, ledger, how, options):
    server = make_server(kind="redis7")
    with redis.Redis.from_url(server.url) as client, FaultProxy(server.url) as proxy:
        workers.url = proxy.url
        push(client, "Receiving")
        worker = workers.start("-t", "1", *options, measured=False)
        if options:
            worker.until_says("now running: 2 workers", 40)
        wait_for(lambda: ledger.notes("start"))
        if how == "frozen":
            os.kill(server.pid, signal.SIGSTOP)
        else:
            proxy.refuse()
            proxy.reset()
        try:
            before = time.monotonic()
            worker.send("TERM")
            assert worker.ended() == 0
            # The promise is 2 s; with the server a stop may take 4 s.
            assert time.monotonic() - before < 1 + 3
        finally:
            os.kill(server.pid, signal.SIGCONT)
            proxy.accept()
        # For the next sweep, if it could not be requeued; in this order, because the parent may requeue it now.
        assert len(private(client)) + len(waiting(client)) >= 1


def test_a_stop_is_in_time_also_below_a_tracer(workers, stored, ledger):
    """Coverage and debuggers; CPython 3.11 would hang in them if the job were interrupted."""
    app = """
        import sys, threading
        from tests.process.jobs import *

        def trace(frame, event, argument):
            return trace

        def configure(config):
            threading.settrace(trace)
            sys.settrace(trace)
    """
    jid = push(stored, "Long", 40)
    worker = workers.start("-t", "1", text=app, measured=False)
    wait_for(lambda: ledger.notes("start", jid=jid))
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 1 + MARGIN_SECONDS + 1
    assert [(job["jid"], job["interrupted_count"]) for job in waiting(stored)] == [(jid, 1)]


def test_hanging_handlers_do_not_delay_the_stop(workers, stored, ledger):
    app = """
        import time
        from tests.process.jobs import *
        from tests.process.ledger import note

        def configure(config):
            for name in ("quiet", "shutdown", "exit"):
                config.on(name, lambda name=name: note(name))
            for name in ("quiet", "exit"):
                config.on(name, lambda: time.sleep(60))
    """
    jid = push(stored, "Long", 40)
    worker = workers.start("-t", "1", text=app, measured=False)
    wait_for(lambda: ledger.notes("start", jid=jid))
    before = time.monotonic()
    worker.stopped()
    assert time.monotonic() - before < 1 + MARGIN_SECONDS
    assert [(job["jid"], job["interrupted_count"]) for job in waiting(stored)] == [(jid, 1)]
    assert stored.hlen("offsider:owners") == 0
    assert [name for name in ledger.events() if name in {"quiet", "shutdown", "exit"}] == ["shutdown"]
    for event in ("quiet", "exit"):
        assert f"handlers of {event} are still running" in worker.output
