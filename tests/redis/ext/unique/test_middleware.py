"""What becomes of a lock in each way that a job can go, with a real worker."""

from __future__ import annotations

import threading

import pytest

from offsider import Discard, Reschedule, Skip, current_job, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.payload import decode
from offsider.ext.unique import Locks, store
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


@pytest.mark.parametrize("options", [{"unique_for": 600}, {"unique_until": "until_executed"}])
def test_a_job_holds_its_lock_until_it_has_succeeded(config, stage, options):
    push(config, **options)
    run(config, lambda: stage.ran and free(config)())
    assert stage.locked_inside == [1]


@pytest.mark.parametrize("options", [{"unique_for": 600, "unique_until": "start"}, {"unique_until": "until_executing"}])
def test_a_lock_until_the_start_is_free_inside_of_the_job(config, stage, options):
    push(config, **options)
    run(config, lambda: stage.ran)
    assert stage.locked_inside == [0]


@pytest.mark.parametrize("error", [Skip(), Discard("no use")])
def test_a_discarded_job_releases_its_lock(config, stage, error):
    stage.does = raises(error)
    push(config)
    run(config, lambda: stage.ran and free(config)())


def test_a_job_that_dies_frees_its_lock(config, stage):
    stage.does = raises(LookupError("gone"))
    push(config)
    run(config, lambda: len(DeadSet(config)) and free(config)())


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


def test_a_job_that_is_rescheduled_keeps_its_lock(config, stage):
    stage.does = raises(Reschedule(3600))
    push(config)
    run(config, lambda: len(ScheduledSet(config)))
    assert len(Locks(config)) == 1


def test_an_interrupted_job_keeps_its_lock(config, stage):
    begun, end = threading.Event(), threading.Event()

    def wait():
        begun.set()
        end.wait(20)

    stage.does = wait
    config.worker.timeout_seconds = 0
    jid = push(config)
    worker = RunningWorker(config).start()
    assert begun.wait(20)
    worker.stop()
    end.set()
    (lock,) = Locks(config)
    assert lock.jid == jid
    assert len(Queue("default", config)) == 1


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


def test_the_lock_of_a_deleted_job_is_released(config, stage, raw_redis):
    """One step does both, so no reader sees only one of them."""
    seen = []
    config.on("execution_finished", lambda news: seen.append(len(Locks(config))))
    push(config)
    run(config, lambda: seen)
    assert seen == [0]


def test_a_job_sent_on_before_it_starts_keeps_its_lock(config, stage):
    push(config, unique_for=600, unique_until="start")
    starting = list(config.server_middleware)[-1]
    config.server_middleware.insert_before(starting, raising(Reschedule(3600)))
    run(config, lambda: len(ScheduledSet(config)))
    assert stage.ran == 0
    assert len(Locks(config)) == 1


def test_deleting_a_stored_job_frees_its_lock(config):
    client = Client(config)
    client.push({"class": "A", "args": [1], "unique_for": 60})
    client.push({"class": "A", "args": [2], "unique_for": 60, "at": 4_102_444_800})
    queue = Queue("default", config)
    assert queue.delete(next(iter(queue)))
    assert [lock.job_name for lock in Locks(config)] == ["A"]
    (entry,) = ScheduledSet(config)
    assert entry.delete()
    assert free(config)()


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
    assert Quarantine(config).restore(kept.id)
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

    monkeypatch.setattr(store, "release", away)
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


def test_the_payload_of_a_retry_has_the_name_of_its_lock(config, stage, raw_redis):
    stage.does = raises(LookupError("gone"))
    push(config, unique_for=600, retry=3)
    run(config, lambda: len(RetrySet(config)))
    (raw,) = raw_redis.zrange("retry", 0, -1)
    (lock,) = Locks(config)
    assert decode(raw)["idempotency_key"] == lock.name
