"""Batches with a real worker: the counts of each outcome, and outcomes without a run."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from functools import partial

import pytest

from offsider import Client, Config, current_job, job
from offsider.config.installation import Installation
from offsider.core.errors import NoCapableWorker, UnknownBatch
from offsider.core.outcome import Failed
from offsider.ext.batches import Batch, Batches, current_batch, store
from offsider.ext.results import Results
from offsider.inspector import Controls, DeadSet, HeldList, Queue, ScheduledSet
from offsider.storage import owners, working
from offsider.storage.effects import EffectCalls, joined
from offsider.storage.owners import Lists
from offsider.storage.working import Owner, PrivateListEntry
from offsider.testing import RunningWorker
from offsider.worker.alive.sweeper import PoisonPills
from offsider.worker.run import control_admission
from offsider.worker.scheduler import Scheduler
from offsider.worker.settle.report import Reporter
from tests.faults import FaultProxy
from tests.middleware import returning
from tests.waiting import wait_for


@pytest.fixture
def ran(declared):
    """Events of callbacks that ran, in order."""
    return []


@pytest.fixture
def reporting(make, ran, declared):
    """Makes a batch whose callbacks note that they ran."""
    jobs = {}
    for name in ("complete", "success", "death"):
        jobs[name] = job(name=name)(lambda bid, options, name=name: ran.append((name, bid)))

    def reporting(**options):
        batch = make(**options)
        for event, callback in jobs.items():
            batch.on(event, callback)
        return batch

    return reporting


def push(client, *acts, **options):
    return [client.push({"class": "Member", "args": [act], **options}) for act in acts]


@pytest.mark.parametrize("fetcher", ["reliable", "basic"])
def test_a_batch_of_real_runs_calls_its_callbacks_once(config, client, member, reporting, *, ran, fetcher):
    config.worker.fetcher = fetcher
    with reporting() as batch:
        client.push_bulk({"class": "Member", "args": [[]] * 150})
        push(client, "skip")
    with RunningWorker(config) as worker:
        wait_for(lambda: len(ran) == 2)
        worker.wait()
    assert sorted(ran) == [("complete", batch.bid), ("success", batch.bid)]
    status = batch.status()
    assert (status.total, status.pending, status.failures) == (151, 0, 0)


@pytest.mark.parametrize(
    "act, options, events, counts",
    [
        ("fail", {}, ["complete"], (1, 1, 0)),
        ("fail", {"retry": 0}, ["complete", "death"], (1, 1, 1)),
        ("fail", {"retry": 0, "dead": False}, ["complete", "death"], (1, 1, 1)),
        ("discard", {}, ["complete", "death"], (1, 1, 1)),
        ("reschedule", {}, [], (1, 0, 0)),
    ],
    ids=["retried", "dead", "not kept", "discarded", "rescheduled"],
)
def test_each_outcome_has_its_own_counts(config, client, member, reporting, *, ran, act, options, events, counts):
    with reporting() as batch:
        push(client, act, **options)
    with RunningWorker(config) as worker:
        wait_for(lambda: len(ran) == len(events))
        worker.wait()
    assert sorted(name for name, _ in ran) == events
    status = batch.status()
    assert (status.pending, status.failures, len(status.dead_jids)) == counts
    if act == "fail":
        listed = [*batch.failed(), *batch.died()]
        assert [about for _, about in listed] == ["Member: ValueError"]


def sleeps():
    while not current_job().cancelled:
        time.sleep(0.01)


async def waits():
    await asyncio.sleep(60)


@pytest.mark.parametrize("runs", [None, sleeps, waits], ids=["queued", "running", "running coroutine"])
def test_a_cancelled_member_counts_as_dead(config, client, declared, reporting, *, ran, runs):
    config.use(Results())
    config.worker.queues = ["default"]
    member = job(name="Member", track=True)(runs or sleeps)
    with reporting() as batch:
        jid = client.push({"class": member, "args": [], "queue": "default" if runs else "other"})
    with RunningWorker(config):
        wait_for(lambda: jid.status() == ("running" if runs else "queued"))
        assert jid.cancel()
        wait_for(lambda: len(ran) == 2)
    assert sorted(name for name, _ in ran) == ["complete", "death"]
    assert batch.status().dead_jids == [jid]
    assert dict(batch.died())[jid] in {"Member: cancelled", "Member: removed (delete)"}


@pytest.mark.interrupts
@pytest.mark.usefixtures("untraced")
def test_a_member_that_a_stop_interrupts_completes_nothing(config, client, declared, reporting, ran):
    started = threading.Event()

    @job(name="Member")
    def long(what):
        started.set()
        while True:
            time.sleep(0.01)

    config.worker.timeout_seconds = 0.2
    with reporting() as batch:
        push(client, "x")
    with RunningWorker(config):
        started.wait(10)
    status = batch.status()
    assert (status.pending, status.failures, status.complete) == (1, 0, False)
    assert len(Queue("default", config)) == 1


def each_of(verb, queue):
    return [getattr(queue, verb)(record) for record in queue]


REMOVALS = {
    "delete from the queue": lambda config: each_of("delete", Queue("default", config)),
    "quarantine from the queue": lambda config: each_of("quarantine", Queue("default", config)),
    "clear the queue": lambda config: Queue("default", config).clear(),
    "kill from a set": lambda config: next(iter(ScheduledSet(config))).kill(),
    "clear a set": lambda config: ScheduledSet(config).clear(),
    "delete held jobs": lambda config: each_of("delete", HeldList("offsider:held:Member", config)),
}


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
def test_a_kill_after_the_removal_of_a_member_loses_no_callback(
    config, client, raw_redis, member, watched, *, pushed, remove, monkeypatch, request
):
    """The process sends no request after the one that removes the job."""
    later = {"at": 1e10} if "set" in request.node.callspec.id else {}
    with watched() as batch:
        client.push({"class": "Member", "args": ["succeed"], **later})
    if "held" in request.node.callspec.id:
        raw_redis.lmove("queue:default", "offsider:held:Member")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(config.events, "emit", killed)
    with pytest.raises(KeyboardInterrupt):
        remove(config)
    assert len(batch.status().dead_jids) == 1
    assert sorted(event for event, _ in pushed()) == ["complete", "death"]


def run_by_a_worker_that_dies(config, monkeypatch, done):
    """Run a worker that does nothing after it has written a disposition."""
    monkeypatch.setattr(Reporter, "settled", lambda *_: None)
    config.worker.queues = ["default"]
    with RunningWorker(config):
        wait_for(done)


def by_a_control(config, monkeypatch, delete):
    Controls(config).drop("Member", delete=delete)
    redis = Installation.of(config).redis
    places = ("queue:default", "offsider:working:*")
    run_by_a_worker_that_dies(config, monkeypatch, lambda: not any(redis.call("KEYS", place) for place in places))


def as_stranded(config, monkeypatch):
    """The admission of stranded jobs gives up; a `RunningWorker` has none, so that of controls acts for it."""
    Controls(config).drop("Member")
    monkeypatch.setattr(
        control_admission, "stopped", lambda *_: Failed(NoCapableWorker("nobody can run it, for 7 days"))
    )
    run_by_a_worker_that_dies(config, monkeypatch, lambda: len(DeadSet(config)))


def as_a_poison_pill(config, monkeypatch):
    redis, owner = Installation.of(config).redis, Owner("host:1:dddddddddddd", "default")
    raw = redis.call(
        "LMOVE", "queue:default", redis.keys.working(owner.identity, owner.capsule, "default"), "LEFT", "RIGHT"
    )
    owners.fence(redis, Lists(owner.identity, {"default": ("default",)}))

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(config.events, "emit", killed)
    with pytest.raises(KeyboardInterrupt):
        PoisonPills(config, redis).bury(PrivateListEntry(owner, "default", raw), [owner.identity])


def by_client_middleware(config, monkeypatch):
    """The member is due, and client middleware cancels its push."""
    redis = Installation.of(config).redis
    redis.call("ZADD", "schedule", 1, redis.call("RPOP", "queue:default"))

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(config.events, "emit", killed)
    config.client_middleware.add(returning())
    with pytest.raises(KeyboardInterrupt):
        Scheduler(config, redis, Client(config)).tick()


WORKER_REMOVALS = {
    "a control": partial(by_a_control, delete=False),
    "a control that deletes": partial(by_a_control, delete=True),
    "stranded": as_stranded,
    "a poison pill": as_a_poison_pill,
    "client middleware": by_client_middleware,
}


@pytest.mark.parametrize("remove", WORKER_REMOVALS.values(), ids=WORKER_REMOVALS)
def test_a_worker_that_dies_after_it_removed_a_member_without_a_run_loses_no_callback_and_no_state(
    config, client, member, watched, *, pushed, remove, monkeypatch
):
    config.use(Results())
    with watched() as batch:
        jid = client.push({"class": "Member", "args": ["succeed"], "track": True})
    remove(config, monkeypatch)
    assert batch.status().dead_jids == [jid]
    assert sorted(event for event, _ in pushed()) == ["complete", "death"]
    assert jid.status() in ("dead", "discarded")


def test_a_removed_job_of_no_batch_or_with_an_unreadable_payload_changes_nothing(config, client, raw_redis, member):
    client.push({"class": "Member", "args": ["bid"]})
    raw_redis.lpush("queue:default", b'{"bid"', b'{"class":"Member","args":[],"bid":"gone","jid":"1"}')
    Queue("default", config).clear()
    assert raw_redis.keys("b-*") == []


def test_a_member_adds_to_its_own_batch_and_opens_children(config, client, declared, reporting, ran):
    @job(name="Member")
    def act(depth):
        own = current_batch(config)
        with own.jobs():
            if depth:
                client.push({"class": "Member", "args": [depth - 1]})
            with Batch(config=config):
                if depth == 2:
                    client.push({"class": "Member", "args": [0]})

    with reporting() as batch:
        client.push({"class": "Member", "args": [2]})
    with RunningWorker(config) as worker:
        wait_for(lambda: len(ran) == 2)
        worker.wait()
    assert not worker.errors
    assert {name for name, _ in ran} == {"complete", "success"}
    status = batch.status()
    assert (status.total, status.pending_kids, len(batch.children())) == (3, 0, 3)


def test_a_run_that_leaves_its_block_open_keeps_the_batch_open_until_it_ends(config, client, declared, reporting, ran):
    @job(name="Member", retry=1, retry_in=lambda *_: timedelta(milliseconds=10))
    def act():
        if current_job().attempt == 1:
            with Batch(current_batch(config).bid, config=config, autoflush=1):
                client.push({"class": "Other", "args": []})
                raise LookupError

    job(name="Other")(lambda: None)
    with reporting() as batch:
        client.push({"class": "Member", "args": []})
    with RunningWorker(config):
        wait_for(lambda: len(ran) == 2, 20)
    assert batch.status().success
    assert batch.status().total == 2


def test_a_callback_finds_its_batch_and_its_parent(config, client, declared, make):
    found = []

    @job(name="Report")
    def report(bid, options):
        own = current_batch(config)
        found.append((own.bid, own.parent().bid))
        with own.parent().jobs():
            client.push({"class": "Member", "args": []})

    @job(name="Finish")
    def finish(bid, options):
        found.append(bid)

    job(name="Member")(lambda: None)
    with make().on("success", finish) as parent, make().on("success", report) as child:
        client.push({"class": "Member", "args": []})
    with RunningWorker(config) as worker:
        wait_for(lambda: len(found) == 2)
    assert not worker.errors
    assert found == [(child.bid, parent.bid), parent.bid]
    assert parent.status().total == 1


def test_a_job_without_a_batch_has_none(config, client, declared):
    @job(name="Plain")
    def plain():
        with pytest.raises(UnknownBatch, match=r"Plain JID-.* is in no batch"):
            current_batch(config)

    client.push({"class": "Plain", "args": []})
    with RunningWorker(config) as worker:
        worker.wait()
    assert not worker.errors


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
@pytest.mark.parametrize("act", ["succeed", "fail"])
def test_outcomes_with_a_lost_reply_count_once(redis_url, raw_redis, member, callbacks, *, fault, act, pushed):
    """The worker loses its connection at the step that writes the outcome, and writes it again."""
    script = working.SETTLE if act == "fail" else working.ACK_AND_CLAIM
    composed = joined(script, [], [], EffectCalls([[store.Effect(store.ADVANCE, [])]]))[0]
    raw_redis.script_load(composed.text)
    with FaultProxy(redis_url) as proxy:
        config = Config()
        config.redis.url = proxy.url
        config.worker.timeout_seconds = 5
        config.worker.queues = ["default"]
        config.use(Batches())
        batch = Batch(config=config, callback_queue="callbacks")
        for event, callback in callbacks.items():
            batch.on(event, callback)
        client = Client(config)
        with batch:
            push(client, act)
        getattr(proxy, fault)(f"b-{batch.bid}-failed".encode())
        with RunningWorker(config):
            wait_for(pushed)
        assert proxy.lost == 1
        Installation.of(config).close()
    assert pushed() == [("complete", batch.bid), *([("success", batch.bid)] if act == "succeed" else [])]
