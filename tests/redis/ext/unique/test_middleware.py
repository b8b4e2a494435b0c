"""What becomes of a lock in each way that a job can go, with a real worker."""

from __future__ import annotations

import pytest

from offsider import Discard, Reschedule, Skip, current_job, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.ext.unique import Locks, locks
from offsider.inspector import DeadSet, Quarantine, Queue, RetrySet, ScheduledSet
from offsider.testing import RunningWorker
from tests.middleware import raising
from tests.waiting import wait_for


class Stage:
    """The job ``Act`` of a test: its body, and its view of its own lock."""

    def __init__(self, config):
        self.config = config
        self.does = lambda: None
        self.ran = 0
        self.locked_inside = []

    def act(self):
        self.ran += 1
        self.locked_inside.append(len(Locks(self.config)))
        self.does()


@pytest.fixture
def stage(config, declared):
    stage = Stage(config)
    job(name="Act", retry=0)(stage.act)
    return stage


def push(config, **options):
    jid = Client(config).push({"class": "Act", "args": [], "retry": 0, **(options or {"unique_for": 600})})
    assert jid
    return jid


def run(config, until):
    with RunningWorker(config):
        wait_for(until)


def free(config):
    return lambda: len(Locks(config)) == 0


def raises(error):
    def raise_it():
        raise error

    return raise_it


@pytest.mark.parametrize(
    "options, locked_inside",
    [
        ({"unique_for": 600}, 1),
        ({"unique_until": "until_executed"}, 1),
        ({"unique_for": 600, "unique_until": "start"}, 0),
        ({"unique_until": "until_executing"}, 0),
    ],
)
def test_a_job_holds_its_lock_until_it_has_succeeded_or_until_its_start(config, stage, options, locked_inside):
    push(config, **options)
    run(config, lambda: stage.ran and free(config)())
    assert stage.locked_inside == [locked_inside]


@pytest.mark.parametrize("error, dead", [(Skip(), 0), (Discard("no use"), 0), (LookupError("gone"), 1)])
def test_a_job_that_is_discarded_or_dies_releases_its_lock(config, stage, error, dead):
    stage.does = raises(error)
    push(config)
    run(config, lambda: stage.ran and free(config)() and len(DeadSet(config)) == dead)


def test_a_job_that_will_be_retried_keeps_its_lock(config, stage):
    stage.does = raises(LookupError("gone"))
    jid = push(config, unique_for=600, retry=3)
    with RunningWorker(config):
        wait_for(lambda: len(RetrySet(config)))
        assert not Client(config).push({"class": "Act", "args": [], "unique_for": 600})
        (entry,) = RetrySet(config)
        assert entry.jid == jid
        stage.does = lambda: None
        assert entry.retry()
        wait_for(lambda: stage.ran == 2 and free(config)())


def test_a_void_run_keeps_the_lock(config, stage, raw_redis):
    """Its job has left the private list: another process owns it, and with it the lock."""
    lost = []
    config.on("lost_ownership", lost.append)

    def loses():
        entry = current_job().entry
        private = Installation.of(config).redis.keys.working(entry.owner.identity, entry.owner.capsule, entry.queue)
        assert raw_redis.lrem(private, 1, entry.raw) == 1

    stage.does = loses
    jid = push(config)
    run(config, lambda: lost)
    assert [lock.jid for lock in Locks(config)] == [jid]


def test_a_job_sent_on_before_it_starts_keeps_its_lock(config, stage):
    push(config, unique_for=600, unique_until="start")
    starting = list(config.server_middleware)[-1]
    config.server_middleware.insert_before(starting, raising(Reschedule(3600)))
    run(config, lambda: len(ScheduledSet(config)))
    assert stage.ran == 0
    assert len(Locks(config)) == 1


def test_clearing_and_killing_free_locks_as_well(config):
    client = Client(config)
    client.push_bulk({"class": "A", "args": [[number] for number in range(50)], "unique_for": 60})
    client.push_bulk({"class": "A", "args": [[-1], [-2]], "unique_for": 60, "at": 4_102_444_800})
    client.push({"class": "B", "args": []})
    assert Queue("default", config).clear() == 51
    assert len(Locks(config)) == 2
    next(iter(ScheduledSet(config))).kill()
    ScheduledSet(config).clear()
    assert free(config)()


def test_a_job_that_is_put_into_quarantine_frees_its_lock(config):
    Client(config).push({"class": "A", "args": [1], "unique_for": 60})
    queue = Queue("default", config)
    assert queue.quarantine(next(iter(queue)))
    assert free(config)()
    (kept,) = Quarantine(config)
    assert Quarantine(config).restore(kept)
    assert len(queue) == 1


def test_removed_invalid_bytes_release_no_lock(config, raw_redis):
    raw_redis.lpush("queue:default", b'not json "idempotency_key"', b"{}")
    raw_redis.sadd("queues", "default")
    Queue("default", config).clear()


def test_a_job_runs_although_its_lock_is_unreachable(config, stage, monkeypatch):
    errors = []
    config.error_handlers.append(lambda error, context: errors.append(context.get("context")))

    def away(*_args, **_kwargs):
        raise RedisUnavailable("away")

    monkeypatch.setattr(locks, "release", away)
    push(config, unique_for=600, unique_until="start")
    run(config, lambda: stage.ran and free(config)())
    assert "releasing the lock of a unique job" in errors


def test_inline_runs_need_no_server(config, declared):
    ran = []

    @job(name="Inline", unique_for=60)
    def inline(number: int) -> None:
        ran.append(number)

    config.redis.url = "redis://127.0.0.1:1/0"
    inline.via(Client(config)).run_inline(7)
    assert ran == [7]


def test_invalid_stored_options_do_not_stop_a_run(config, stage, raw_redis):
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", b'{"class":"Act","args":[],"jid":"j1","idempotency_key":"k","unique_for":"soon"}')
    run(config, lambda: stage.ran)


def test_a_duplicate_pushed_during_the_run_causes_one_more_run(config, stage):
    options = {"unique_until": "until_executed", "reschedule_once": True}
    stage.does = lambda: Client(config).push({"class": "Act", "args": [], **options})
    push(config, **options)
    run(config, lambda: stage.ran == 2 and free(config)())
    assert stage.ran == 2
