"""Slots are freed and parked jobs go on, also when a process died in between; and nobody polls for nothing."""

from __future__ import annotations

import time

import pytest

from offsider import job
from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.core.payload import encode
from offsider.ext.concurrency_limits import slots as slots_module, store
from offsider.ext.concurrency_limits.rules import Rules
from offsider.ext.concurrency_limits.slots import LOOK_SECONDS, REPAIR_SECONDS, Slots, SlotsService
from offsider.ext.concurrency_limits.store import Names, Run
from offsider.ext.concurrency_limits.table import Table
from offsider.storage import owners
from offsider.storage.owners import Lists

ALIVE = "host:1:0123456789ab"
GONE = "host:2:0123456789ab"


@pytest.fixture
def slots(config, declared):
    @job(name="Hard", concurrency_limit=1)
    def hard() -> None: ...

    owners.beat(config.shared_redis(), Lists(ALIVE, {"default": ("default",)}), 60_000)
    return Slots(config, Table(config, Rules({}, default_shares=False)))


def run_of(process, number=1):
    return Run("Hard", f"{process} {number} {'a' * 24}", process)


def take(raw_redis, run):
    raw_redis.zadd(f"offsider:limits:slots:{run.name}", {run.member: 1})
    raw_redis.sadd("offsider:limits:active", run.name)


def park(raw_redis, *jids):
    raw_redis.sadd("offsider:places", "offsider:limits:jobs:Hard")
    for jid in jids:
        raw_redis.lpush(
            "offsider:limits:jobs:Hard", encode({"class": "Hard", "args": [], "jid": jid, "queue": "default"})
        )


def test_the_end_of_a_run_frees_its_slot_and_resumes_the_next_job(slots, raw_redis):
    take(raw_redis, run_of(ALIVE))
    park(raw_redis, "b", "c")
    slots.leave(run_of(ALIVE), 1)
    assert raw_redis.llen("queue:default") == 1
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def test_a_slot_that_cannot_be_freed_is_freed_later(slots, config, raw_redis, monkeypatch):
    told = []
    config.error_handlers.append(lambda error, context: told.append(context["context"]))
    take(raw_redis, run_of(ALIVE))
    with monkeypatch.context() as broken:
        broken.setattr(store, "leave", raising(RedisUnavailable("away")))
        slots.leave(run_of(ALIVE), 1)
        slots.resume("Hard", 1)
        assert [slots.tick(), slots.tick()] == [LOOK_SECONDS] * 2
    assert told == ["freeing a slot of Hard", "resuming jobs of Hard", "looking after concurrency limits"]
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 1
    slots.tick()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def test_a_slot_that_the_server_refuses_to_free_holds_up_no_other(slots, raw_redis, monkeypatch):
    first, second, leave = run_of(ALIVE, 1), run_of(ALIVE, 2), store.leave
    take(raw_redis, first)
    take(raw_redis, second)
    with monkeypatch.context() as broken:
        broken.setattr(store, "leave", raising(RedisRefused("NOPERM no")))
        slots.leave(first, 1)
        slots.leave(second, 1)

    def refuse_the_first(redis, run, *args, **kwargs):
        if run == first:
            raise RedisRefused("NOPERM no")
        return leave(redis, run, *args, **kwargs)

    with monkeypatch.context() as broken:
        broken.setattr(store, "leave", refuse_the_first)
        slots.flush()
    assert [run for run, _ in store.runs(slots._config.shared_redis(), "Hard")] == [first]
    slots.flush()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def test_a_run_whose_slot_the_server_has_lost_takes_it_again(slots, config, raw_redis):
    slots.hold(run_of(ALIVE), 1)
    slots.tick()
    assert [run for run, _ in store.runs(config.shared_redis(), "Hard")] == [run_of(ALIVE)]
    slots.leave(run_of(ALIVE), 1)
    slots.tick()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def test_a_run_that_ends_while_it_takes_its_slot_again_does_not_keep_it(slots, raw_redis, monkeypatch):
    keep = store.keep

    def end_then_keep(redis, run):
        slots.leave(run, 1)
        keep(redis, run)

    monkeypatch.setattr(store, "keep", end_then_keep)
    slots.hold(run_of(ALIVE), 1)
    slots.tick()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def test_a_run_of_a_process_that_was_declared_dead_takes_no_slot_again(slots, raw_redis):
    raw_redis.set("offsider:fenced:" + ALIVE, 1)
    slots.hold(run_of(ALIVE), 1)
    slots.tick()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def raising(error):
    def raise_it(*args, **kwargs):
        raise error

    return raise_it


def test_slots_of_a_process_that_is_gone_go_to_parked_jobs(slots, raw_redis, caplog):
    take(raw_redis, run_of(GONE))
    park(raw_redis, "b")
    slots.tick()
    assert raw_redis.llen("queue:default") == 1
    assert "freed 1 slot of Hard whose processes are gone" in caplog.text


def test_a_process_that_lives_keeps_its_slots(slots, raw_redis):
    take(raw_redis, run_of(ALIVE))
    park(raw_redis, "b")
    slots.tick()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 1
    assert raw_redis.llen("queue:default") == 0


def test_one_process_at_a_time_looks_after_parked_jobs(slots, config, raw_redis):
    other = Slots(config, Table(config, Rules({}, default_shares=False)))
    slots.tick()
    park(raw_redis, "b")
    other.tick()
    assert raw_redis.llen("queue:default") == 0
    slots.tick()
    assert raw_redis.llen("queue:default") == 1


def test_while_nothing_is_parked_a_look_is_one_round_trip(slots, config, raw_redis):
    slots.tick()
    before = raw_redis.info("commandstats")
    slots.tick()
    after = raw_redis.info("commandstats")
    called = {name for name in after if after[name]["calls"] > before.get(name, {"calls": 0})["calls"]}
    assert called - {"cmdstat_info"} == {"cmdstat_hgetall", "cmdstat_smembers"}


def test_now_and_then_slots_are_looked_at_though_nothing_is_parked(slots, raw_redis, monkeypatch):
    slots.tick()
    take(raw_redis, run_of(GONE))
    slots.tick()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 1
    later = time.monotonic() + REPAIR_SECONDS
    monkeypatch.setattr(slots_module.time, "monotonic", lambda: later)
    slots.tick()
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0
    assert raw_redis.smembers("offsider:limits:active") == set()


def test_the_limit_of_a_class_that_is_declared_elsewhere_is_what_workers_say(slots, config, raw_redis):
    names = Names(config.shared_redis().keys)
    raw_redis.sadd("offsider:places", names.parked("Foreign"))
    for number in range(3):
        foreign = {"class": "Foreign", "args": [], "jid": str(number), "queue": "default"}
        raw_redis.lpush(names.parked("Foreign"), encode(foreign))
    store.declare(config.shared_redis(), {"Foreign": 2}, {}, config.clock.now())
    slots.tick()
    assert raw_redis.llen("queue:default") == 2


def test_the_service_frees_at_its_end_what_is_left(slots, config, raw_redis, monkeypatch):
    service = SlotsService(slots, config)
    service.start()
    assert service.wait_for_tick(1, 10)
    take(raw_redis, run_of(ALIVE))
    slots._left.append((run_of(ALIVE), 1))
    service.stop()
    assert service.join(10)
    assert raw_redis.zcard("offsider:limits:slots:Hard") == 0


def test_a_service_ends_although_the_server_is_away(slots, config, monkeypatch):
    monkeypatch.setattr(store, "leave", raising(RedisUnavailable("away")))
    slots._left.append((run_of(ALIVE), 1))
    service = SlotsService(slots, config)
    service.stop()
    assert service.join(10)


def test_jobs_of_a_limit_that_was_raised_to_thousands_go_on_in_one_look(slots, config, raw_redis):
    park(raw_redis, *(f"j{number}" for number in range(450)))
    store.set_limit(config.shared_redis(), "Hard", 1000)
    slots.tick()
    assert raw_redis.llen("queue:default") == 450
