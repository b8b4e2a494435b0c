"""Looking at periodic jobs and acting on them from any process."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
import redis

from offsider import Config, job
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.ext.periodic import Periodic, PeriodicJobs, UnknownPeriodicJob
from offsider.ext.periodic.entry import make, registered_in
from offsider.ext.periodic.service import PeriodicService
from offsider.inspector import EventLog
from offsider.jobs import registry
from offsider.storage import processes
from tests.middleware import returning
from tests.redis.ext.periodic import live_processes

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def jobs(make_config) -> PeriodicJobs:
    """As in a process that knows nothing of the application."""
    return PeriodicJobs(make_config())


def publish(config: Config, *entries, since: float = 1.0) -> None:
    live_processes.publish(Installation.of(config).redis, *entries, since=since)


def test_jobs_of_workers_this_process_and_run_time_are_listed_by_name(make_config):
    periodic = Periodic()
    periodic.register("@daily", "A", name="mine")
    jobs = PeriodicJobs(make_config(periodic))
    publish(make_config(), make("theirs", "@daily", "A"))
    jobs.add("@daily", "A", name="added")
    assert [(each.name, each.entry.source, each.versions) for each in jobs] == [
        ("added", "redis", 1),
        ("mine", "code", 0),
        ("theirs", "code", 1),
    ]
    assert len(jobs) == 3
    assert jobs["mine"] == jobs.find("mine")


def test_an_unknown_name_suggests_the_nearest(jobs, make_config):
    publish(make_config(), make("nightly", "@daily", "A"))
    assert jobs.find("nightli") is None
    with pytest.raises(UnknownPeriodicJob, match=r"unknown periodic job nightli \(did you mean 'nightly'"):
        _ = jobs["nightli"]


def test_jobs_are_marked_when_the_last_process_that_pushes_them_ends(jobs, make_config):
    redis = Installation.of(make_config()).redis
    jobs.add("@daily", "A", name="added")
    assert jobs["added"].versions == 0
    publish(make_config(), make("theirs", "@daily", "A"))
    live_processes.beat(redis, since=2.0)  # without periodic jobs
    assert (jobs["added"].versions, jobs["theirs"].versions) == (1, 1)
    processes.leave(redis, "host:1:abcdef")
    assert (jobs["added"].versions, jobs["theirs"].versions) == (0, 0)


def test_versions_of_processes_are_counted_and_the_latest_is_shown(jobs, make_config):
    publish(make_config(), make("n", "@daily", "A"), since=1.0)
    publish(make_config(), make("n", "@hourly", "A"), since=2.0)
    assert (jobs["n"].versions, jobs["n"].entry.cron) == (2, "@hourly")


def test_the_next_runs_are_in_the_job_s_time_zone(jobs, make_config):
    publish(make_config(), make("n", "30 2 * * *", "A", {"tz": "America/New_York"}))
    before_summer_time = datetime(2026, 3, 7, 17, tzinfo=UTC).timestamp()
    assert [when.isoformat() for when in jobs["n"].next_runs(2, before_summer_time)] == [
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]
    assert len(jobs["n"].next_runs()) == 5


def test_pausing_and_resuming_return_whether_they_changed_something(jobs, make_config):
    publish(make_config(), make("n", "@daily", "A"))
    assert (jobs["n"].pause(), jobs["n"].pause(), jobs["n"].paused) == (True, False, True)
    assert (jobs["n"].resume(), jobs["n"].resume(), jobs["n"].paused) == (True, False, False)


def test_a_manual_run_of_a_job_declared_elsewhere_uses_its_options(make_config, jobs, raw_redis):
    @job(name="A", queue="slow", retry=3)
    def a(number: int) -> None: ...

    periodic = Periodic()
    periodic.register("@yearly", a, args=[5], name="n")
    config = make_config(periodic)
    PeriodicService(Installation.of(config), list(periodic.registry.entries.values())).tick()
    with registry.isolated():
        registry._jobs.clear()
        jid = jobs["n"].run(by="ann")
    payload = json.loads(raw_redis.lindex("queue:slow", 0))
    assert (payload["class"], payload["args"], payload["retry"], payload["jid"]) == ("A", [5], 3, jid)
    assert [(line.how, line.jid, line.by) for line in jobs["n"].history()] == [("run", jid, "ann")]
    assert jobs["n"].last == jobs["n"].history()[0]


def test_a_run_that_middleware_stops_has_no_jid(make_config):
    periodic = Periodic()
    periodic.register("@yearly", "A")
    config = make_config(periodic)
    config.client_middleware.add(returning())
    jobs = PeriodicJobs(config)
    assert not jobs["A"].run()
    assert jobs["A"].history()[0].jid == ""
    assert "@" in jobs["A"].history()[0].by


def test_a_job_is_added_changed_and_removed_at_run_time(jobs, make_config):
    added = jobs.add("@daily", "A", args=[1], tz="Europe/Berlin", queue="low", description="x")
    assert (added.entry.tz, added.entry.queue, added.entry.args) == ("Europe/Berlin", "low", (1,))
    assert jobs.add("@hourly", "A").entry.cron == "@hourly"
    assert jobs.add(job="A", every=10).entry.cron == "@every 10s"
    assert len(jobs) == 1
    added.remove()
    assert len(jobs) == 0


def test_a_job_whose_arguments_do_not_fit_is_not_added(jobs):
    @job(name="Tick")
    def tick(days: int) -> None: ...

    with pytest.raises(ConfigurationError, match="periodic job 'Tick': Tick: missing a required argument: 'days'"):
        jobs.add("@daily", tick)
    assert list(jobs) == []


def test_jobs_registered_in_code_cannot_be_changed_or_removed(jobs, make_config):
    publish(make_config(), make("n", "@daily", "A"))
    with pytest.raises(ConfigurationError, match="'n' is registered in code or in a file: change it there"):
        jobs.add("@daily", "A", name="n")
    with pytest.raises(ConfigurationError, match="'n' is registered in code: remove it there, or pause it"):
        jobs["n"].remove()


def test_a_periodic_job_is_on_the_server_that_gets_its_jobs(make_config, other_url, raw_redis):
    @job(name="Export", urgency="throttled")
    def export() -> None: ...

    periodic = Periodic()
    for cron, name in (("@daily", "here"), ("@hourly", "there")):
        periodic.register(cron, "A", name=name, server="" if name == "here" else "bulk")
    periodic.register("@daily", export, name="routed")
    config = make_config(periodic)
    config.add_server("bulk", url=other_url)
    config.routing.rules = [["urgency=throttled", "later", "bulk"]]
    assert [each.name for each in PeriodicJobs(config, server="main")] == ["here"]
    assert [each.name for each in PeriodicJobs(config, server="bulk")] == ["routed", "there"]
    assert [each.name for each in PeriodicJobs(config)] == ["here", "routed", "there"]
    jobs = PeriodicJobs(config)
    assert jobs.add("@daily", export, name="added").server == "bulk"
    assert [each.name for each in jobs] == ["here", "added", "routed", "there"]
    jobs["added"].run()
    jobs["there"].run()
    assert not raw_redis.exists("queue:later")
    with redis.Redis.from_url(other_url) as bulk:
        assert (bulk.llen("queue:later"), bulk.llen("queue:default")) == (1, 1)


def test_workers_push_only_ticks_of_their_own_server(make_config, other_url, raw_redis):
    periodic = Periodic()
    periodic.register("* * * * *", "A", name="here")
    periodic.register("* * * * *", "B", name="there", server="bulk")
    config = make_config(periodic)
    config.add_server("bulk", url=other_url)
    now = int(raw_redis.time()[0])
    with redis.Redis.from_url(other_url) as bulk:
        for server, name in ((raw_redis, "here"), (bulk, "there")):
            server.hset("offsider:periodic:ticks", name, now // 60 * 60 - 60)
        for name in config.servers:
            view = Installation.of(config, name)
            service = PeriodicService(view, list(registered_in(view).values()))
            service.tick()
        stored = [json.loads(raw)["class"] for raw in raw_redis.lrange("queue:default", 0, -1)]
        assert (stored, [json.loads(raw)["class"] for raw in bulk.lrange("queue:default", 0, -1)]) == (["A"], ["B"])


def test_a_job_changed_to_another_server_is_only_there(make_config, other_url):
    config = make_config()
    config.add_server("bulk", url=other_url)
    jobs = PeriodicJobs(config)
    jobs.add("@daily", "A", name="moved", server="bulk")
    jobs.add("@hourly", "A", name="moved", server="main")
    assert [(each.server, each.entry.cron) for each in jobs] == [("main", "@hourly")]
    jobs["moved"].remove()
    assert list(jobs) == []
    publish(Installation.of(config, "bulk"), make("theirs", "@daily", "A"))
    with pytest.raises(ConfigurationError, match="'theirs' is registered in code or in a file"):
        jobs.add("@daily", "A", name="theirs")


def test_a_pause_has_its_author_and_time_and_is_in_the_event_log(jobs, make_config):
    publish(make_config(), make("nightly", "@daily", "A"))
    assert jobs["nightly"].pause_origin is None
    before = time.time()
    assert jobs["nightly"].pause(by="Kim", reason="the partner is down")
    assert not jobs["nightly"].pause(by="Ann")
    origin = jobs["nightly"].pause_origin
    assert (origin.by, origin.reason) == ("Kim", "the partner is down")
    assert before - 1 <= origin.at <= time.time() + 1
    assert jobs["nightly"].resume(by="Ann")
    assert [(event.kind, event.subject, event.who) for event in EventLog(make_config()).read()] == [
        ("periodic-resumed", "nightly", "Ann"),
        ("periodic-paused", "nightly", "Kim"),
    ]


def test_a_job_that_no_live_process_has_is_listed_until_it_is_removed(jobs, make_config):
    redis = Installation.of(make_config()).redis
    publish(make_config(), make("nightly", "@daily", "A"))
    with pytest.raises(ConfigurationError, match="registered in code: remove it there"):
        jobs["nightly"].remove()
    live = jobs["nightly"].seen_at
    processes.leave(redis, "host:1:abcdef")
    redis.call("UNLINK", "offsider:periodic:programs")  # as after three minutes
    assert (jobs["nightly"].versions, jobs["nightly"].seen_at) == (0, live)
    jobs["nightly"].remove()
    assert jobs.find("nightly") is None
