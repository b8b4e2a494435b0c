"""Slots are freed and held jobs resume, even after a process died in between, without idle polling."""

from __future__ import annotations

import time

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import Succeeded
from offsider.core.payload import decode, encode
from offsider.ext.concurrency_limits import slots as slots_module, store
from offsider.ext.concurrency_limits.rules import Rules
from offsider.ext.concurrency_limits.slots import LOOK_SECONDS, REPAIR_SECONDS, Slots
from offsider.ext.concurrency_limits.store import Candidate, Entered, Names, Run
from offsider.ext.concurrency_limits.table import Table
from offsider.runtime.context import JobContext
from offsider.storage import owners
from offsider.storage.effects import run_alone
from offsider.storage.owners import Lists
from tests.waiting import wait_for

ALIVE = "host:1:0123456789ab"
GONE = "host:2:0123456789ab"


@pytest.fixture
def slots(config, declared):
    @job(name="Hard", concurrency_limit=1)
    def hard() -> None: ...

    owners.beat(Installation.of(config).redis, Lists(ALIVE, {"default": ("default",)}), 60_000)
    return Slots(Installation.of(config), Table(Installation.of(config), Rules({}, default_shares=False)))


def run_of(process, number=1):
    return Run("Hard", f"{process} {number} {'a' * 24}", process)


def a_run():
    return JobContext({"class": "Hard", "args": [], "jid": "a" * 24}, "default")


def take(raw_redis, run):
    raw_redis.zadd(f"offsider:limits:slots:{run.name}", {run.member: 1})
    raw_redis.sadd("offsider:limits:active", run.name)


def hold(raw_redis, *jids):
    raw_redis.zadd("offsider:limits:due", {"Hard": 0})
    raw_redis.sadd("offsider:places", "offsider:limits:jobs:Hard")
    for jid in jids:
        raw_redis.lpush(
            "offsider:limits:jobs:Hard", encode({"class": "Hard", "args": [], "jid": jid, "queue": "default"})
        )


def test_a_slot_freed_by_an_outcome_is_used_by_the_next_job(slots, config, raw_redis):
    """The outcome's script returns how many jobs are held; the service is waked for them."""
    job = a_run()
    service = slots.service(config)
    service.start()
    assert service.wait_for_tick(1, 10)
    take(raw_redis, run_of(ALIVE))
    with slots.occupy(run_of(ALIVE), job, 1):
        slots.look()  # otherwise the service finds the held job on its own
        hold(raw_redis, "b", "c")
    (effect,) = job.effects
    assert run_alone(Installation.of(config).redis, [effect]) == [2]
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0
    effect.done(2, Succeeded())
    wait_for(lambda: raw_redis.llen("queue:default") == 1)
    service.stop()
    assert service.join(10)


@pytest.mark.parametrize("held, resumed", [(0, 0), (1, 1), (None, 1)])
def test_held_jobs_are_resumed_if_any_are_reported_or_the_reply_was_lost(slots, raw_redis, held, resumed):
    job = a_run()
    slots.tick()
    with slots.occupy(run_of(ALIVE), job, 1):
        hold(raw_redis, "b")
    job.effects[0].done(held, Succeeded())
    slots.tick()
    assert raw_redis.llen("queue:default") == resumed


def test_an_outage_is_reported_once(slots, config, monkeypatch):
    reported = []
    config.error_handlers.append(lambda error, context: reported.append(context["context"]))
    with monkeypatch.context() as broken:
        broken.setattr(store, "resume", raising(RedisUnavailable("away")))
        for _ in range(2):
            slots.resume_soon("Hard", 1)
            assert slots.tick() == LOOK_SECONDS
    assert reported == ["checking concurrency limits"]
    assert 0 < slots.tick() <= LOOK_SECONDS


def test_the_slot_of_a_run_that_ended_without_a_written_outcome_is_freed_by_its_process(
    slots, config, raw_redis, monkeypatch
):
    """The run was void, or its thread died: no outcome has freed the slot, though the process lives."""
    void, running, of_another = run_of(ALIVE, 1), run_of(ALIVE, 2), run_of("host:3:0123456789ab", 3)
    owners.beat(Installation.of(config).redis, Lists(of_another.process, {"default": ("default",)}), 60_000)
    for run in (void, running, of_another):
        take(raw_redis, run)
    now = time.monotonic()
    with slots.occupy(running, a_run(), 1):
        with slots.occupy(void, a_run(), 1):
            pass
        for round_, left in enumerate([3, 2, 2]):  # once is not enough: a run may be about to begin
            monkeypatch.setattr(slots_module.time, "monotonic", lambda round_=round_: now + round_ * REPAIR_SECONDS)
            slots.look()
            assert raw_redis.zcard("offsider:limits:slots:Hard") == left
    assert {run for run, _ in store.runs(Installation.of(config).redis, "Hard")} == {running, of_another}


def test_a_run_acquires_its_slot_again_after_the_server_lost_it(slots, config, raw_redis):
    job = a_run()
    with slots.occupy(run_of(ALIVE), job, 1):
        slots.look()
        assert [run for run, _ in store.runs(Installation.of(config).redis, "Hard")] == [run_of(ALIVE)]
        raw_redis.delete("offsider:limits:slots:Hard")
        job.effects = ()  # its outcome is written though it still runs: it has overrun its hard limit
        slots.look()
    slots.look()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_run_that_ends_while_reacquiring_its_slot_does_not_keep_it(slots, raw_redis, monkeypatch, when):
    run, job = run_of(ALIVE), a_run()
    holding = slots.occupy(run, job, 1)
    real = {"before": store.missing, "during": store.keep}[when]

    def end_meanwhile(*args):
        result = real(*args) if when == "before" else None
        holding.__exit__(None, None, None)
        return result if when == "before" else real(*args)

    monkeypatch.setattr(store, real.__name__, end_meanwhile)
    holding.__enter__()
    slots.look()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def test_a_run_of_a_dead_process_does_not_take_its_slot_again(slots, raw_redis):
    raw_redis.set("offsider:fenced:" + ALIVE, 1)
    with slots.occupy(run_of(ALIVE), a_run(), 1):
        slots.look()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def raising(error):
    def raise_it(*args, **kwargs):
        raise error

    return raise_it


def test_slots_of_a_dead_process_are_used_by_held_jobs(slots, raw_redis, caplog):
    take(raw_redis, run_of(GONE))
    hold(raw_redis, "b")
    slots.look()
    assert raw_redis.llen("queue:default") == 1
    assert "reclaimed 1 slot of Hard held by dead processes" in caplog.text


def test_a_live_process_keeps_its_slots(slots, raw_redis):
    take(raw_redis, run_of(ALIVE))
    hold(raw_redis, "b")
    slots.look()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 1
    assert raw_redis.llen("queue:default") == 0


def test_one_process_at_a_time_resumes_held_jobs(slots, config, raw_redis):
    other = Slots(Installation.of(config), Table(Installation.of(config), Rules({}, default_shares=False)))
    slots.look()
    hold(raw_redis, "b")
    other.look()
    assert raw_redis.llen("queue:default") == 0
    slots.look()
    assert raw_redis.llen("queue:default") == 1


def test_without_held_jobs_a_check_is_one_round_trip(slots, config, raw_redis):
    slots.look()
    before = raw_redis.info("commandstats")
    slots.look()
    after = raw_redis.info("commandstats")
    called = {name for name in after if after[name]["calls"] > before.get(name, {"calls": 0})["calls"]}
    assert called - {"cmdstat_info"} == {"cmdstat_hgetall", "cmdstat_smembers", "cmdstat_zrange"}


def test_slots_are_checked_periodically_even_without_held_jobs(slots, raw_redis, monkeypatch):
    slots.look()
    take(raw_redis, run_of(GONE))
    slots.look()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 1
    later = time.monotonic() + REPAIR_SECONDS
    monkeypatch.setattr(slots_module.time, "monotonic", lambda: later)
    slots.look()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0
    assert raw_redis.smembers("offsider:limits:active") == set()


def test_the_limit_of_a_class_declared_elsewhere_is_the_one_that_workers_publish(slots, config, raw_redis):
    names = Names(Installation.of(config).redis.keys)
    raw_redis.sadd("offsider:places", names.held("Foreign"))
    raw_redis.sadd(names.active, "Foreign")
    for number in range(3):
        foreign = {"class": "Foreign", "args": [], "jid": str(number), "queue": "default"}
        raw_redis.lpush(names.held("Foreign"), encode(foreign))
    store.declare(Installation.of(config).redis, {"Foreign": 2}, {}, config.clock.now())
    slots.look()
    assert raw_redis.llen("queue:default") == 2


def test_after_a_limit_was_raised_by_thousands_jobs_are_resumed_in_parts_whose_starts_resume_the_next(
    slots, config, raw_redis
):
    """The next part would overtake the first in the queue."""
    redis = Installation.of(config).redis
    hold(raw_redis, *(f"j{number}" for number in range(250)))
    store.set_limit(redis, "Hard", 1000)
    slots.look()
    started = []
    while raw := raw_redis.rpop("queue:default"):
        jid = decode(raw)["jid"]
        run = Run("Hard", f"{ALIVE} {len(started) + 1} {jid}", ALIVE)
        entered = store.enter(redis, run, jid, 1, Candidate(raw, raw, None))
        started.append(jid)
        assert (entered is Entered.TAKEN_LAST) == (len(started) in (100, 200))
        if entered is Entered.TAKEN_LAST:
            slots.resume_soon("Hard", 1)
            slots.tick()
    assert started == [f"j{number}" for number in range(250)]


def test_the_next_check_comes_when_a_rate_limit_allows_the_next_start(slots, config, raw_redis):
    slots.tick()
    hold(raw_redis, "b", "c")
    seconds, microseconds = raw_redis.time()
    now = seconds * 1000 + microseconds // 1000
    raw_redis.hset("offsider:limits:rates", "Hard", "1 1000")
    raw_redis.zadd("offsider:limits:recent:Hard", {"earlier": now - 700})
    slots._look_at = 0.0
    assert 0.05 <= slots.tick() <= 0.3
    raw_redis.zadd("offsider:limits:due", {"Hard": 0})
    slots._look_at = 0.0
    raw_redis.set(Installation.of(config).redis.keys.lease("limits"), "another", ex=60)
    assert slots.tick() > 0.9, "only one process checks more often"
