"""Each tick pushes its job once across all processes, despite clock skew, versions, crashes and outages."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from offsider import job
from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.ext.periodic import PeriodicJobs, service as module
from offsider.ext.periodic.cron import ALIASES
from offsider.ext.periodic.entry import Entry, make
from offsider.ext.periodic.store import Claimed, HistoryLine, PeriodicStore
from offsider.ext.unique import Unique
from offsider.inspector import EventLog
from tests.faults import FaultProxy
from tests.threads import together
from tests.time_zones import ticks_by_minutes
from tests.waiting import wait_for

NOON = int(datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp())


def at(*moment: int, tz: str = "UTC") -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo(tz)).timestamp())


def entry(cron: str = "* * * * *", *, name: str = "tick", job: str = "Tick", source: str = "code", **options) -> Entry:
    return make(name, cron, job, options, source=source)


@pytest.fixture
def started(clock, process):
    """Makes a process with these entries that has begun at noon."""

    def started(*entries):
        clock.set(NOON)
        one = process(*entries)
        one.config.use(Unique())
        one.settle()
        return one

    return started


# ------------------------------------------------------------------------------------------ once


def test_a_tick_pushes_its_job_at_its_time(clock, process, pushed, raw_redis):
    clock.set(NOON + 10)
    one = process(entry(args=(1, "a"), queue="low"))
    assert one.settle() == module.MAX_SLEEP_SECONDS
    assert pushed("low") == []
    clock.set(NOON + 60)
    assert one.settle() == module.MAX_SLEEP_SECONDS
    payload = json.loads(raw_redis.lindex("queue:low", 0))
    assert (payload["class"], payload["args"], payload["queue"]) == ("Tick", [1, "a"], "low")
    assert payload["periodic"] == {"name": "tick", "at": NOON + 60}
    assert raw_redis.smembers("queues") == {b"low"}
    assert len(payload["jid"]) == 24
    assert "enqueued_at" in payload


def test_options_of_the_entry_override_those_of_the_declared_job(clock, process, raw_redis):
    one = process(entry(retry=2))

    @job(name="Tick", queue="slow", retry=9, tags=["a"])
    def tick() -> None: ...

    clock.set(NOON)
    one.settle()
    clock.set(NOON + 60)
    one.settle()
    payload = json.loads(raw_redis.lindex("queue:slow", 0))
    assert (payload["retry"], payload["tags"]) == (2, ["a"])


@pytest.mark.parametrize(
    "tz,change",
    [
        ("America/New_York", (at(2026, 3, 8, 6, 0), ["30 2 * * *", "*/30 * * * *", "15 * * * *", "0 3 * * *"])),
        ("Australia/Lord_Howe", (at(2026, 4, 4, 13, 0), ["45 1 * * *", "*/15 * * * *", "@hourly", "@daily"])),
    ],
)
def test_two_processes_with_clocks_five_minutes_apart_fire_every_tick_once(clock, process, pushed, tz, change):
    start, expressions = change
    entries = [entry(cron, name=f"e{number}", tz=tz, job=cron) for number, cron in enumerate(expressions)]
    clock.set(start)
    processes = [process(*entries, wrong_by=wrong_by) for wrong_by in (150, -150)]
    for one in processes:
        one.settle()
    end = start + 6 * 3600
    for now in range(start, end + 1, 50):
        clock.set(now)
        together(*[one.tick for one in processes])
        for one in processes:
            pool = one.service._store._redis
            pool.call("DEL", *(f"{pool.keys.prefix}offsider:periodic:lease:{each.name}" for each in entries))
            one.settle()
    end = clock.now
    wanted = sorted(
        tick
        for each in entries
        for tick in ticks_by_minutes(ALIASES.get(each.cron, each.cron), ZoneInfo(tz), start, end)
    )
    assert sorted(pushed()) == wanted


ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata", "UTC")
CHANGES = [at(2026, 3, 8, 6), at(2026, 11, 1, 4), at(2026, 3, 29), at(2026, 10, 25), at(2026, 4, 4, 13)]
FIELD = {
    "minute": st.sampled_from(["*", "*/7", "0", "30", "15,45", "*/30"]),
    "hour": st.sampled_from(["*", "*/2", "1", "2", "1,2", "0-3"]),
}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_steps_of_time_give_the_ticks_of_the_clock(clock, process, pushed, raw_redis, data):
    raw_redis.flushall()
    expression = f"{data.draw(FIELD['minute'])} {data.draw(FIELD['hour'])} * * *"
    tz, start = data.draw(st.sampled_from(ZONES)), data.draw(st.sampled_from(CHANGES))
    one_entry = entry(expression, tz=tz, grace_seconds=7200)
    clock.set(start)
    processes = [process(one_entry), process(one_entry)]
    processes[0].settle()
    now = start
    for _ in range(12):
        now += data.draw(st.integers(1, 3600))
        clock.set(now)
        processes[data.draw(st.integers(0, 1))].settle()
    processes[0].settle()
    assert pushed() == ticks_by_minutes(expression, ZoneInfo(tz), start, now)


@pytest.mark.parametrize("options", [{}, {"extra": {"unique_for": 600}}], ids=["plain", "unique"])
def test_many_processes_at_once_push_one_job(clock, process, pushed, options):
    clock.set(NOON)
    processes = [process(entry(**options)) for _ in range(6)]
    for one in processes:
        one.config.use(Unique())
        one.settle()
    clock.set(NOON + 60)
    together(*[one.tick for one in processes])
    assert pushed() == [NOON + 60]


def test_versions_side_by_side_push_the_ticks_of_both_and_a_common_tick_once(clock, process, pushed):
    clock.set(NOON)
    old, new = process(entry("*/10 * * * *")), process(entry("*/15 * * * *"), entry("5 * * * *", name="new"))
    for now in range(NOON, NOON + 1801, 50):
        clock.set(now)
        for one in (old, new):
            one.settle()
    clock.set(NOON + 1800)
    for one in (old, new):
        one.settle()
    assert [tick - NOON for tick in pushed()] == [300, 600, 900, 1200, 1800]


# ------------------------------------------------------------------------------------- late ones


def test_ticks_missed_within_grace_seconds_are_pushed(clock, process, pushed):
    clock.set(NOON)
    process(entry()).settle()
    clock.set(NOON + 119)
    process(entry()).settle()
    assert pushed() == [NOON + 60]


def test_older_ticks_are_skipped_and_logged_once(clock, process, pushed, caplog):
    clock.set(NOON)
    processes = [process(entry()), process(entry())]
    processes[0].settle()
    clock.set(NOON + 600)
    with caplog.at_level(logging.WARNING, "offsider"):
        for one in processes:
            one.settle()
    assert pushed() == [NOON + 600]
    assert caplog.text.count("periodic job tick: skipped 9 ticks, the first at 2026-03-01T12:01:00+00:00") == 1
    lines = processes[0].service._store.history("tick")
    assert [(line.how, line.tick, line.count) for line in lines] == [
        ("tick", NOON + 600, 0),
        ("skipped", NOON + 540, 9),
    ]
    (event,) = EventLog(processes[0].config).read()
    assert (event.kind, event.subject, event.fields) == ("periodic-missed", "tick", {"count": "9"})


def test_an_entry_that_no_live_process_has_is_reported_once_and_forgotten_after_a_week(clock, process):
    def reported() -> list[tuple[str, str]]:
        return [(event.kind, event.subject) for event in EventLog(after.config).read() if "orphaned" in event.kind]

    clock.set(NOON)
    before, after = process(entry()), process()
    before.settle()
    for seconds, expected in ((60, 0), (181, 1), (300, 1)):
        clock.set(NOON + seconds)
        after.service._publish_at = 0
        after.settle()
        assert reported() == [("periodic-orphaned", "tick")] * expected
    jobs = PeriodicJobs(after.config)
    assert (jobs["tick"].versions, jobs["tick"].seen_at) == (0, NOON)
    again = process(entry())
    again.settle()  # a deploy brings it back, and another one removes it
    clock.set(NOON + 500)
    after.service._publish_at = 0
    after.settle()
    assert len(reported()) == 2
    clock.set(NOON + 300 + 8 * 86_400)
    after.service._publish_at = 0
    after.settle()
    assert not after.redis.call("EXISTS", "offsider:periodic:seen", "offsider:periodic:orphaned")


def test_a_year_of_missed_ticks_is_skipped_quickly(clock, started, pushed, caplog):
    one = started(entry())
    clock.set(NOON + 365 * 86_400 + 30)
    one.settle()
    assert pushed() == [NOON + 365 * 86_400]
    assert "skipped at least 1,000 ticks" in caplog.text


def test_an_interval_pushes_once_among_processes_and_no_burst_after_an_outage(clock, process, pushed, caplog):
    clock.set(NOON + 3)
    every_10_seconds = {"every": 10}
    several = [
        process(make("ping", None, "Ping", every_10_seconds), make("beat", None, "Beat", every_10_seconds))
        for _ in range(3)
    ]
    assert [4.9 < each.settle() <= 5 for each in several] == [True] * 3
    for now in (NOON + 10, NOON + 20, NOON + 55):
        clock.set(now)
        for each in several:
            each.settle()
    names = [NOON + 10, NOON + 20, NOON + 50]
    assert sorted(pushed()) == sorted(2 * names)
    skipped = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert len(skipped) == 2
    assert "periodic job ping: skipped 2 ticks, the first at 2026-03-01T12:00:30+00:00" in skipped[0]


def test_after_a_loss_of_data_no_tick_is_repeated_or_lost(clock, started, pushed, raw_redis):
    one = started(entry())
    clock.set(NOON + 60)
    one.settle()
    raw_redis.flushall()
    clock.set(NOON + 60)
    one.settle()
    assert pushed() == []
    raw_redis.flushall()
    clock.set(NOON + 125)
    one.settle()
    assert pushed() == [NOON + 120]


# ------------------------------------------------------------------------------- dead and failing


def test_middleware_runs_once_and_may_stop_a_job(clock, process, pushed, caplog):
    clock.set(NOON)
    processes = [process(entry()), process(entry())]
    seen = []
    for one in processes:
        one.config.client_middleware.add(lambda push: (yield) if seen.append(push.payload["jid"]) else None)
        one.settle()
    clock.set(NOON + 60)
    with caplog.at_level(logging.INFO, "offsider"):
        for one in processes:
            one.settle()
    assert len(seen) == 1
    assert pushed() == []
    assert processes[0].service._store.history("tick")[0].how == "stopped"
    assert "client middleware canceled the push for the tick at 2026-03-01T12:01:00+00:00" in caplog.text


def test_failing_middleware_does_not_block_other_jobs_and_is_reported_once_per_tick(clock, process, pushed, raw_redis):
    clock.set(NOON)
    one = process(entry(job="Bad", name="bad"), entry())
    one.config.client_middleware.add(fail_for_bad)
    one.settle()
    clock.set(NOON + 60)
    assert one.settle() <= module.LEASE_SECONDS
    assert pushed() == [NOON + 60]
    one.settle()
    assert [str(error) for error, _ in one.errors] == ["no"]
    assert one.errors[0][1] == {"context": "pushing periodic job bad", "tick": NOON + 60}


def fail_for_bad(push):
    if push.payload["class"] == "Bad":
        raise RuntimeError("no")
    yield


def test_a_queue_key_of_the_wrong_type_claims_no_tick(clock, started, pushed, raw_redis):
    one = started(entry())
    raw_redis.set("queue:default", "x")
    clock.set(NOON + 60)
    one.settle()
    assert isinstance(one.errors[0][0], RedisRefused)
    raw_redis.delete("queue:default")
    one.settle()
    assert pushed() == [NOON + 60]


def test_an_outage_is_reported_once_and_due_jobs_are_pushed_after_it(redis_url, pushed, process, clock, caplog):
    clock.set(NOON)
    with FaultProxy(redis_url) as proxy:
        one = process(entry(), url=proxy.url)
        one.settle()
        proxy.refuse()
        proxy.reset()
        clock.set(NOON + 60)
        assert one.tick() == one.tick() == module.OUTAGE_SECONDS
        assert [type(error) for error, _ in one.errors] == [RedisUnavailable]
        proxy.accept()
        with caplog.at_level(logging.INFO, "offsider"):
            wait_for(lambda: one.tick() and pushed() == [NOON + 60])
    assert "periodic jobs: Redis is online" in caplog.text


STEPS = (b"offsider:periodic:entries", b"offsider:periodic:lease", b"offsider:periodic:history")


@pytest.mark.parametrize("lost", [(part, step) for part in ("lose_request", "lose_reply") for step in STEPS])
def test_a_tick_is_pushed_once_if_any_reply_is_lost(redis_url, pushed, process, clock, lost):
    clock.set(NOON)
    with FaultProxy(redis_url) as proxy:
        one, other = process(entry(), url=proxy.url), process(entry())
        one.settle()
        clock.set(NOON + 60)
        part, step = lost
        getattr(proxy, part)(step)
        wait_for(lambda: one.tick() > module.OUTAGE_SECONDS)
        other.settle()
    assert proxy.lost == 1
    assert pushed() == [NOON + 60]


# -------------------------------------------------------------------------------------- by hand


def test_a_paused_job_pushes_nothing_and_resumes_with_its_next_tick(clock, started, pushed):
    one = started(entry())
    store = PeriodicStore(one.redis)
    assert (store.pause("tick"), store.pause("tick")) == (True, False)
    clock.set(NOON + 60)
    one.settle()
    clock.set(NOON + 90)
    assert (store.resume("tick"), store.resume("tick")) == (True, False)
    one.settle()
    assert pushed() == []
    clock.set(NOON + 120)
    one.settle()
    assert pushed() == [NOON + 120]


def test_every_process_pushes_a_job_added_at_run_time_until_it_is_removed(clock, process, pushed):
    clock.set(NOON)
    one, other = process(), process()
    store = PeriodicStore(one.redis)
    assert store.add(entry(name="later", source="redis"))
    one.settle()
    clock.set(NOON + 60)
    other.settle()
    assert not store.add(entry("*/2 * * * *", name="later", source="redis"))
    clock.set(NOON + 120)
    one.settle()
    clock.set(NOON + 180)
    one.settle()
    assert [tick - NOON for tick in pushed()] == [60, 120]
    assert store.remove("later")
    clock.set(NOON + 240)
    one.settle()
    assert len(pushed()) == 2


def test_code_overrides_added_jobs_and_invalid_entries_are_reported(clock, process, pushed, raw_redis):
    clock.set(NOON)
    one = process(entry("0 0 1 1 *"))
    store = PeriodicStore(one.redis)
    store.add(entry(source="redis"))
    raw_redis.hset("offsider:periodic:entries", "odd", "[]")
    one.settle()
    clock.set(NOON + 60)
    one.settle()
    assert pushed() == []
    assert [str(error) for error, _ in one.errors] == ["periodic job 'odd': the stored entry is invalid"]


def test_a_service_finds_added_jobs_and_stops_on_request(process, raw_redis, monkeypatch):
    monkeypatch.setattr(module, "MAX_SLEEP_SECONDS", 0.05)
    one = process()
    one.service.start()
    wait_for(lambda: one.service.ticks)
    PeriodicStore(one.redis).add(entry("* * * * *", name="later", source="redis"))
    wait_for(lambda: "later" in one.service._added)
    one.service.stop()
    assert one.service.join(10)


# ------------------------------------------------------------------------------- with unique jobs


def unique(*processes):
    for one in processes:
        one.config.use(Unique())


def test_a_unique_job_is_pushed_with_its_lock_and_a_duplicate_is_stopped(clock, process, pushed, raw_redis, caplog):
    clock.set(NOON)
    processes = [process(entry(unique_for=600)) for _ in range(2)]
    unique(*processes)
    for one in processes:
        one.settle()
    with caplog.at_level(logging.INFO, "offsider"):
        for minute in (1, 2):
            clock.set(NOON + 60 * minute)
            for one in processes:
                one.settle()
    assert pushed() == [NOON + 60]
    assert [(line.how, line.tick, bool(line.jid)) for line in processes[0].service._store.history("tick")] == [
        ("stopped", NOON + 120, False),
        ("tick", NOON + 60, True),
    ]
    assert "deduplicated" in caplog.text


@pytest.mark.parametrize("state", ["gone", "paused", "early", "refused"])
def test_a_unique_job_whose_tick_cannot_be_claimed_acquires_no_lock(clock, started, pushed, raw_redis, state):
    one = started(entry(unique_for=600))
    store, client = one.service._store, one.service._client
    job = client.prepare(client.build(entry(unique_for=600).item(NOON)))
    storing = one.config.push_guard.call(one.redis.keys, [job])
    line = HistoryLine("tick", NOON if state != "early" else 4_000_000_000, NOON, job.jid)
    if state == "gone":
        raw_redis.hset("offsider:periodic:ticks", "tick", NOON)
    else:
        raw_redis.hset("offsider:periodic:ticks", "tick", NOON - 60)
    if state == "paused":
        store.pause("tick")
    if state == "refused":
        raw_redis.config_set("maxmemory", 1)
        try:
            with pytest.raises(RedisRefused):
                store.claim("tick", line, storing)
        finally:
            raw_redis.config_set("maxmemory", 0)
        assert raw_redis.hget("offsider:periodic:ticks", "tick") == str(NOON - 60).encode()
    else:
        claimed, reply = store.claim("tick", line, storing)
        assert (claimed, reply) == (Claimed[state.upper()], None)
    assert pushed() == []
    assert not list(raw_redis.scan_iter("offsider:unique:*"))
    assert store._redis.call("PING") == b"PONG"
