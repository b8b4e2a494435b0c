"""The fixed order in which extensions, settings and the application's middleware act on one job that has all of them.

The page on middleware and events promises it.
"""

from __future__ import annotations

import secrets
import threading

import pytest

from offsider import job
from offsider.client import Client
from offsider.core.errors import PayloadTooLarge
from offsider.core.payload import decode
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.unique import Locks, Unique
from offsider.inspector import Controls, Quarantine, ScheduledSet
from offsider.jobs import registry
from offsider.testing import RunningWorker
from tests.waiting import wait_for

TEXT = "the quick brown fox " * 500


class Trace:
    """The components that acted, in order, from any thread."""

    def __init__(self, config):
        self.config = config
        self.seen = []
        self.go_on = threading.Event()
        self.held = ()
        config.queue_resolver = lambda push: self.note("queue resolver")
        config.client_middleware.add(self.push_outer, self.push_inner)
        config.server_middleware.add(self.run_outer, self.run_inner)
        config.on("large_payload", lambda _: self.note("payload guard"))

    def note(self, what):
        self.seen.append(what)

    def taken(self):
        seen, self.seen = self.seen, []
        return seen

    def push_outer(self, push):
        self.note("client middleware")
        yield

    def push_inner(self, push):
        self.note(f"client middleware, {'key' if 'idempotency_key' in push.payload else 'no key yet'}")
        yield

    def run_outer(self, job):
        self.note("server middleware")
        try:
            yield
        finally:
            self.note("server middleware ends")

    def run_inner(self, job):
        self.note("server middleware, whole arguments" if job.payload["args"] == [TEXT] else "packed arguments")
        yield

    def act(self, text):
        self.held = len(Controls(self.config).holders("Act")), len(Locks(self.config))
        self.note("job")
        self.go_on.wait(20)

    def unique(self):
        """Tell of the guard, which an extension has set."""
        guard = self.config.push_guard
        take, call = guard.take, guard.call

        def noted_take(push, at):
            self.note("lock is named")
            return take(push, at)

        def noted_call(keys, jobs):
            self.note(f"lock is taken, {'compressed' if decode(jobs[0].raw).get('compressed') else 'plain'}")
            return call(keys, jobs)

        guard.take, guard.call = noted_take, noted_call


@pytest.fixture
def config(config, monkeypatch):
    config.client.large_payloads = "compress"
    monkeypatch.setattr("offsider.client.payload_checks.COMPRESS_BYTES", 2_000)
    for extension in (ConcurrencyLimits(), Periodic(), Unique()):
        config.use(extension)
    return config


@pytest.fixture
def trace(config):
    with registry.isolated():
        trace = Trace(config)
        trace.unique()
        trace.declared = job(name="Act", unique_for=600, concurrency_limit=1)(trace.act)
        yield trace


PUSHED = [
    "queue resolver",
    "client middleware",
    "client middleware, no key yet",
    "lock is named",
    "payload guard",
    "lock is taken, compressed",
]


def push(config, trace, text=TEXT):
    return Client(config).push({"class": trace.declared, "args": [text]})


def test_a_push_passes_middleware_then_names_its_lock_then_compresses_then_acquires_it(config, trace):
    assert push(config, trace)
    assert trace.taken() == PUSHED
    # The lock is derived from the plain arguments, and a duplicate takes the same path.
    assert not push(config, trace)
    assert trace.taken() == PUSHED
    assert len(Locks(config)) == 1


def test_a_too_large_job_is_refused_last_and_acquires_no_lock(config, trace):
    config.client.payload_limit_bytes = 1_000
    with pytest.raises(PayloadTooLarge):
        push(config, trace, secrets.token_hex(5_000))
    assert trace.taken() == PUSHED[:4]
    assert len(Locks(config)) == 0


def test_a_job_of_a_tick_passes_the_same_steps(config, trace):
    PeriodicJobs(config).add("0 0 1 1 *", trace.declared, args=[TEXT], name="yearly")
    PeriodicJobs(config)["yearly"].run()
    assert trace.taken() == PUSHED


def test_a_run_is_stopped_by_a_control_of_its_class_before_others_and_before_middleware(config, trace):
    controls = Controls(config)
    controls.defer("Act", 3600)
    controls.hold("*")
    jid = push(config, trace)
    trace.taken()
    with RunningWorker(config):
        # 1. Both would stop it: the control of the class decides, and the lock stays with the job.
        wait_for(lambda: [record.jid for record in ScheduledSet(config)] == [jid])
        assert (controls.count_held("*"), len(Locks(config))) == (0, 1)
        # 2. Without it the other one holds it, and no server middleware has seen it.
        controls.resume("Act")
        wait_for(lambda: (ScheduledSet(config).enqueue_all(), controls.count_held("*")) == (0, 1))
        assert len(Locks(config)) == 1
        assert {what for what in trace.taken() if not what.startswith("client middleware")} == set()
        # 3. With a slot it runs: the slot and the lock are held around all middleware, which sees plain arguments.
        controls.resume("*")
        wait_for(lambda: "job" in trace.seen)
        assert trace.taken() == ["server middleware", "server middleware, whole arguments", "job"]
        assert trace.held == (1, 1)
        trace.go_on.set()
        wait_for(lambda: (len(controls.holders("Act")), len(Locks(config))) == (0, 0))
        assert trace.taken() == ["server middleware ends"]


def test_a_dropped_job_releases_the_lock_and_uses_no_slot(config, trace):
    Controls(config).drop("Act")
    Controls(config).hold("*")
    push(config, trace)
    with RunningWorker(config):
        wait_for(lambda: (len(Quarantine(config)), len(Locks(config))) == (1, 0))
    assert trace.taken() == PUSHED
    assert Controls(config).count_held("*") == 0
