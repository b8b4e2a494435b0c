"""A process publishes itself at each heartbeat, and counts its runs."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from redis import Redis

from offsider import job
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import Succeeded
from offsider.core.series import Load
from offsider.inspector import Deploys, EventLog, FleetMetrics, JobMetrics
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.storage import processes, run_counts
from offsider.storage.activity import digest_of
from offsider.storage.working import Owner
from offsider.testing import FakeClock
from offsider.worker import heartbeat as heartbeat_module, run_writer
from offsider.worker.heartbeat import PAUSE_SECONDS, PAUSE_SECONDS_OF_6, SLOW_MICROSECONDS, Heartbeat
from offsider.worker.unit_of_work import Run, UnitOfWork
from offsider.worker.work_state import RunningUnit, WorkState
from tests.runs import count
from tests.snapshot import snapshot
from tests.started_unit import started_unit
from tests.waiting import wait_for

IDENTITY = "host:1:0123456789ab"


class Beating:
    """A heartbeat whose inputs are controlled by the test."""

    def __init__(self, config: Config, *, embedded: bool = False, count=None) -> None:
        self.config = config
        self.state = WorkState()
        self.owner = SimpleNamespace(identity=IDENTITY)
        self.quiet = False
        self.events: list[str] = []
        for event in ("heartbeat", "beat"):
            config.on(event, lambda event=event: self.events.append(event))
        self.redis = Installation.of(config).make_redis(1)
        self.heartbeat = Heartbeat(
            config,
            self.redis,
            self.owner,
            self.state,
            quiet=lambda: self.quiet,
            embedded=embedded,
            count=count,
        )
        self.tick = self.heartbeat.tick


@pytest.fixture
def make(config):
    made: list[Beating] = []

    def make(**options) -> Beating:
        made.append(Beating(config, **options))
        return made[-1]

    yield make
    for beating in made:
        beating.redis.close()


@pytest.mark.parametrize("version, pause", [(6, PAUSE_SECONDS_OF_6), (7, PAUSE_SECONDS), (8, PAUSE_SECONDS)])
def test_it_beats_every_ten_seconds_as_sidekiq_does(make, config, raw_redis, version, pause):
    config.redis.wire_version = version
    beating = make()
    beating.state.begin("tid", *started_unit("low", b'{"class":"X","args":[]}', 7.9))
    assert beating.tick() == pause
    work = f"{IDENTITY}:{'workers' if version == 6 else 'work'}"
    assert json.loads(raw_redis.hget(work, "tid")) == {
        "queue": "low",
        "payload": '{"class":"X","args":[]}',
        "run_at": 7,
    }
    assert raw_redis.ttl(IDENTITY) == raw_redis.ttl(work) == 60


def test_each_heartbeat_reports_the_current_state(make, raw_redis):
    beating = make()
    beating.tick()
    first = raw_redis.hgetall(IDENTITY)
    assert set(first) == {b"info", b"concurrency", b"busy", b"beat", b"rtt_us", b"quiet", b"rss", b"jobs", b"activity"}
    beating.quiet = True
    beating.state.begin("tid", *started_unit("low", b"x", 7.9))
    beating.tick()
    second = raw_redis.hgetall(IDENTITY)
    assert (first[b"quiet"], first[b"busy"]) == (b"false", b"0")
    assert (second[b"quiet"], second[b"busy"]) == (b"true", b"1")
    assert int(second[b"rss"]) > 1000
    assert 0 < int(second[b"rtt_us"]) < 10_000_000
    assert float(second[b"beat"]) >= float(first[b"beat"])


def test_counts_are_added_at_each_beat_and_kept_when_they_cannot_be_written(make, proxy, raw_redis, config):
    config.redis.url = proxy.url
    beating = make()
    count(beating.state.runs, 2, failed=1)
    beating.tick()
    proxy.refuse()
    count(beating.state.runs, 1)
    beating.tick()
    proxy.accept()
    assert (raw_redis.get("stat:processed"), raw_redis.get("stat:failed")) == (b"2", b"1")
    beating.tick()
    assert (raw_redis.get("stat:processed"), raw_redis.get("stat:failed")) == (b"3", b"1")


def test_the_first_heartbeat_and_the_first_after_a_partition_are_distinguished(make, raw_redis):
    beating = make()
    beating.tick()
    beating.tick()
    assert beating.events == ["heartbeat", "beat", "beat"]
    raw_redis.delete(IDENTITY)
    beating.tick()
    assert beating.events[3:] == ["heartbeat", "beat"]


def test_each_heartbeat_registers_the_configured_queues(make, config, raw_redis):
    config.worker.queues = ["ruby", "*"]
    config.capsule("other", queues=["other"])
    config.capsules["default"].discover(["found"])
    beating = make()
    for _ in range(2):
        beating.tick()
        assert raw_redis.smembers("queues") == {b"ruby", b"other"}
        raw_redis.delete("queues")
    raw_redis.set("queues", "no set")
    beating.tick()
    assert raw_redis.exists(IDENTITY)
    assert beating.events.count("beat") == 3


def test_the_jobs_that_it_can_run_are_published_again_only_if_they_have_changed(make, raw_redis):
    beating = make()
    beating.tick()
    raw_redis.hset(IDENTITY, "jobs", "{}")
    beating.tick()
    assert raw_redis.hget(IDENTITY, "jobs") == b"{}"
    with registry.isolated():
        job(name="New")(lambda: None)
        beating.tick()
        assert "New" in json.loads(raw_redis.hget(IDENTITY, "jobs"))
    beating.tick()
    raw_redis.delete(IDENTITY)
    beating.tick()
    assert raw_redis.hexists(IDENTITY, "jobs")


def test_five_slow_round_trips_in_a_row_are_warned_about_once(make, monkeypatch, caplog):
    beating = make()
    trips = iter([100, *[SLOW_MICROSECONDS * 2] * 4, 100, *[SLOW_MICROSECONDS * 2] * 8])
    now = [0.0]

    def clock():
        # Called twice a beat: before the first command, and after it.
        if clock.before:
            now[0] += next(trips) / 1_000_000
        clock.before = not clock.before
        return now[0]

    clock.before = False
    monkeypatch.setattr(heartbeat_module, "time", SimpleNamespace(perf_counter=clock))
    for _ in range(10):
        beating.tick()
    assert "a round trip to Redis takes" not in caplog.text
    beating.tick()
    assert caplog.text.count("a round trip to Redis takes") == 1
    for _ in range(3):
        beating.tick()
    assert caplog.text.count("a round trip to Redis takes") == 1


def test_the_round_trip_contains_no_work_of_this_process(make, monkeypatch, raw_redis):
    beating, now = make(), [0.0]
    beating.state.begin("tid", *started_unit("low", b"x", 7.9))

    def slow(function):
        def slowly(*args, **options):
            now[0] += 1.0
            return function(*args, **options)

        return slowly

    monkeypatch.setattr(heartbeat_module, "describe", slow(heartbeat_module.describe))
    monkeypatch.setattr(RunningUnit, "as_sidekiq_shows", slow(RunningUnit.as_sidekiq_shows))
    monkeypatch.setattr(heartbeat_module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    beating.tick()
    beating.tick()
    assert raw_redis.hget(IDENTITY, "rtt_us") == b"0"


def test_a_new_identity_replaces_the_old_one(make, raw_redis):
    beating = make()
    beating.tick()
    beating.owner.identity = "host:1:ba9876543210"
    beating.tick()
    assert raw_redis.smembers("processes") == {b"host:1:ba9876543210"}
    assert not raw_redis.exists(IDENTITY)
    beating.heartbeat.leave()
    of_the_fleet = ("offsider:series:shards", "offsider:releases", "deploylock-", "20")
    assert {key for key in snapshot(raw_redis) if not key.startswith(of_the_fleet)} <= {"process_cleanup", "queues"}


def test_an_outage_is_reported_once_and_the_process_is_published_again(make, proxy, raw_redis, config):
    config.redis.url = proxy.url
    reports = []
    config.error_handlers.append(lambda error, context: reports.append(context["context"]))
    beating = make()
    proxy.refuse()
    beating.tick()
    beating.tick()
    proxy.accept()
    assert not raw_redis.exists(IDENTITY)
    beating.tick()
    assert reports == ["heartbeat"]
    assert raw_redis.exists(IDENTITY)


def test_a_beat_can_be_requested(make):
    beating = make()
    beating.heartbeat.start()
    wait_for(lambda: beating.events == ["heartbeat", "beat"])
    beating.heartbeat.wake()
    wait_for(lambda: beating.events == ["heartbeat", "beat", "beat"])
    beating.heartbeat.stop()
    assert beating.heartbeat.join(10)


def ran(name: str = "X", started_at: float | None = None) -> UnitOfWork:
    unit = UnitOfWork("low", b"raw")
    job = JobContext({"class": name, "args": [], "jid": "a"}, "low", declared=object())
    unit.run = Run(job, Succeeded(), time.time() - 1 if started_at is None else started_at, 0.01, None)
    return unit


def test_counts_of_each_class_are_written_once_with_the_heartbeat(make, config, raw_redis):
    reported: list[tuple[int, int, int]] = []
    beating = make(count=lambda series, busy, concurrency: reported.append((len(series), busy, concurrency)))
    config.metric_labels.append(lambda name, queue: {"team": f"{name} of {queue}"})
    beating.state.runs.finished([ran(), ran()])
    beating.tick()
    beating.tick()
    assert [(one.processed, one.labels["team"]) for one in FleetMetrics.read(config)] == [(2, "X of low")]
    assert [(job.name, job.processed) for job in JobMetrics.top("1h", config=config).jobs] == [("X", 2)]
    assert reported == [(1, 0, 5), (0, 0, 5)]


@pytest.mark.parametrize("version,key", [(6, "workers"), (8, "work")])
def test_rubys_pages_see_running_jobs_with_the_next_report(make, config, raw_redis, version, key):
    config.redis.wire_version = version
    beating = make()
    beating.tick()

    def shown() -> list[str]:
        beating.heartbeat.report()
        jobs = raw_redis.hgetall(f"{beating.owner.identity}:{key}")
        assert int(raw_redis.hget(beating.owner.identity, "busy")) == len(jobs)
        return sorted(f"{tid.decode()} {json.loads(job)['payload']}" for tid, job in jobs.items())

    one, two, three = (started_unit("low", raw, 1.0) for raw in (b"one", b"two", b"three"))
    beating.state.begin("t1", *one)
    assert shown() == ["t1 one"]
    beating.state.begin("t2", *two)
    assert shown() == ["t1 one", "t2 two"]
    beating.tick()
    beating.state.end(one[0])
    beating.state.end(two[0])
    beating.state.begin("t2", *three)
    assert shown() == ["t2 three"]
    beating.state.end(three[0])
    assert shown() == []


NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def test_a_run_counts_in_the_minute_in_which_it_ended(make, config, raw_redis):
    config.clock = FakeClock(NOON.timestamp() + 4)
    beating = make()
    ends = [-1.0, -1.0, 1.0]
    beating.state.runs.finished([ran(started_at=NOON.timestamp() + at) for at in ends])
    beating.heartbeat.runs.write()
    fields = [raw_redis.hget(f"j|261127|{minute}", "X|p") for minute in ("11:59", "12:00", "11:5", "12:0")]
    assert fields == [b"2", b"1", b"2", b"1"]
    assert sum(job.processed for job in JobMetrics.top("1h", config=config).jobs) == 3
    assert [one.processed for one in FleetMetrics.read(config)] == [3]


@pytest.mark.parametrize("ambiguous", [True, False])
def test_counts_of_later_minutes_are_kept_if_an_earlier_one_fails(make, config, raw_redis, monkeypatch, ambiguous):
    config.clock = FakeClock(NOON.timestamp() + 4)
    beating = make()
    beating.state.runs.finished([ran(started_at=NOON.timestamp() + at) for at in (-61.0, -1.0, 1.0)])
    written: list[float] = []
    add = run_writer.run_counts.add

    def fail_second(*arguments: object, **options: object) -> None:
        written.append(arguments[2])
        if len(written) == 2:
            raise RedisUnavailable("no reply", ambiguous=ambiguous)
        add(*arguments, **options)

    monkeypatch.setattr(run_writer.run_counts, "add", fail_second)
    with pytest.raises(RedisUnavailable):
        beating.heartbeat.runs.write()
    beating.heartbeat.runs.write()
    assert [raw_redis.hget(f"j|261127|{minute}", "X|p") for minute in ("11:5", "12:0")] == [
        b"1" if ambiguous else b"2",
        b"1",
    ]


def test_the_work_of_its_threads_is_reported_for_its_shard(make, config):
    config.clock = clock = FakeClock(1_800_000_000.0)
    config.worker.shard = "urgent"
    beating = make()
    beating.state.begin("tid", *started_unit("low", b"x", clock.now() + 4))
    clock.advance(10)
    beating.heartbeat.runs.write()
    assert run_counts.load_totals(beating.redis) == {"urgent": Load(6.0, 50.0)}
    beating.quiet = True
    for _ in range(2):
        clock.advance(10)
        beating.heartbeat.runs.write()
    # At the second beat its free threads have taken no job for long.
    assert run_counts.load_totals(beating.redis) == {"urgent": Load(26.0, 110.0)}


def test_the_time_of_idle_threads_is_written_once_a_minute_and_to_that_minute(make, config):
    minute = 1_800_000_000.0
    config.clock = clock = FakeClock(minute)
    beating = make()
    written: list[Load] = []
    for _ in range(7):
        clock.advance(10)
        beating.tick()
        written.append(run_counts.load_totals(beating.redis).get("", Load()))
    assert written == [*[Load()] * 4, *[Load(0.0, 250.0)] * 3]
    assert run_counts.load_minutes(beating.redis, minute, minute) == {"": [Load(0.0, 250.0)]}


def test_a_process_prunes_the_registry_once_a_minute(make, config, raw_redis):
    config.clock = clock = FakeClock(1_800_000_000.0)
    beating = make()
    beating.tick()
    raw_redis.delete("process_cleanup")
    clock.advance(50)
    beating.tick()
    assert not raw_redis.exists("process_cleanup")
    clock.advance(10)
    beating.tick()
    assert raw_redis.exists("process_cleanup")


def test_counters_and_rates_are_written_each_second_that_something_ran(config, raw_redis):
    beating = Beating(config)
    beating.tick()
    count(beating.state.runs, 40, failed=2)
    beating.heartbeat.report()
    assert raw_redis.get("stat:processed") == b"40"
    assert raw_redis.get("stat:failed") == b"2"
    reported = json.loads(raw_redis.hget(IDENTITY, "activity"))
    assert reported["processed"] > 0
    assert reported["failed"] == pytest.approx(reported["processed"] / 20, rel=0.01)


def test_running_jobs_are_reported_with_their_age_and_private_list(config, raw_redis):
    beating = Beating(config)
    beating.tick()
    unit = UnitOfWork("low", b"{}", Owner(IDENTITY, "default"))
    beating.state.begin("tid1", unit, config.clock.now() - 7)
    beating.heartbeat.report()
    [(capsule, queue, digest, elapsed_seconds)] = json.loads(raw_redis.hget(IDENTITY, "activity"))["running"].values()
    assert (capsule, queue, digest) == ("default", "low", digest_of(b"{}"))
    assert 7 <= elapsed_seconds < 37
    assert raw_redis.hget(IDENTITY, "busy") == b"1"


def test_jobs_of_the_basic_fetcher_have_no_private_list_to_be_reported_with(config, raw_redis):
    beating = Beating(config)
    beating.tick()
    beating.state.begin("tid1", *started_unit("low", b"{}", config.clock.now()))
    beating.heartbeat.report()
    assert json.loads(raw_redis.hget(IDENTITY, "activity"))["running"] is None


def test_an_idle_worker_reports_once_and_sends_nothing_more(config, raw_redis):
    beating = Beating(config)
    beating.tick()
    beating.heartbeat.report()
    before = raw_redis.info("commandstats")["cmdstat_evalsha"]["calls"]
    beating.heartbeat.report()
    assert raw_redis.info("commandstats")["cmdstat_evalsha"]["calls"] == before


def test_a_process_that_the_server_has_forgotten_reports_again(config, raw_redis):
    beating = Beating(config)
    beating.tick()
    beating.heartbeat.report()
    raw_redis.flushall()
    beating.tick()
    beating.heartbeat.report()
    assert raw_redis.hexists(IDENTITY, "activity")


def test_before_its_first_beat_and_after_it_has_left_a_process_reports_nothing(config, raw_redis):
    beating = Beating(config)
    count(beating.state.runs, 3)
    beating.heartbeat.report()
    assert snapshot(raw_redis) == {}
    beating.tick()
    beating.heartbeat.leave()
    beating.heartbeat.report()
    assert not raw_redis.exists(IDENTITY)


def test_extensions_add_fields_and_a_broken_one_hides_nothing(make, config, raw_redis):
    def broken():
        raise KeyError("no field")

    errors = []
    config.error_handlers.append(lambda error, context: errors.append(error))
    config.routing.rules = [["*", "default"]]
    for field in (lambda: {"color": "green"}, broken, lambda: {"object": object()}):
        config.info_fields.append(field)
    make().tick()
    info = json.loads(raw_redis.hget(IDENTITY, "info"))
    assert (info["color"], info["routing"], len(errors)) == ("green", config.routing.rules.digest, 2)
    assert "object" not in info


def test_a_process_that_drains_a_full_server_stays_visible_and_receives_signals(make_server, config):
    server = make_server()
    config.redis.url = server.url
    beating = Beating(config)
    with Redis.from_url(server.url) as client:
        processes.send_signal(beating.redis, IDENTITY, "TSTP")
        client.config_set("maxmemory", 1)
        count(beating.state.runs, 1)
        beating.tick()
        assert client.hget(IDENTITY, "busy") == b"0"
        assert processes.take_signal(beating.redis, IDENTITY) == "TSTP"
        assert beating.events == ["heartbeat", "beat"]
        client.config_set("maxmemory", 0)
        beating.tick()
        assert client.get("stat:processed") == b"1"
    beating.redis.close()


def test_a_deploy_is_in_the_event_log_without_a_command(make, config):
    config.client.app_version = "v42"
    for _ in range(2):
        beating = make()
        beating.tick()
        beating.tick()
    (event,) = EventLog(config).read()
    assert (event.kind, event.subject, event.fields) == ("deploy", "v42", {"process": IDENTITY})
    assert [mark.label for mark in Deploys(config).marks(time.time() - 60, time.time())] == ["v42"]


def test_processes_report_the_end_of_an_outage_once(make, proxy, config):
    config.redis.url = proxy.url
    fleet = [make(), make()]
    fleet[1].owner.identity = "host:2:0123456789ab"
    for beating in fleet:
        beating.tick()
    proxy.refuse()
    for beating in fleet:
        beating.tick()
    proxy.accept()
    for beating in fleet:
        beating.tick()
        beating.tick()
    reported = [(event.kind, event.subject) for event in EventLog(config).read() if event.kind != "deploy"]
    assert reported == [("reconnected", IDENTITY)]
