"""Each fault is a finding that names its subject, its begin, its cause and the next step; without it there is none."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, UnknownSubject
from offsider.core.series import DURATION_SECONDS, Series
from offsider.inspector import Controls
from offsider.inspector.events import EventLog
from offsider.inspector.finding import Finding, Severity, as_json, from_json
from offsider.inspector.findings import find, mute, refresh, stored, unmute
from offsider.inspector.findings.classes import find_classes as detect_classes
from offsider.inspector.findings.look import MINUTES, Look
from offsider.inspector.findings.wording import percent, seconds_text, span
from offsider.storage import events, run_counts, slots
from offsider.storage.clocks import Comparison
from offsider.storage.run_counts import MinuteCounts
from offsider.storage.slots import Rate
from offsider.testing import FakeClock
from offsider.worker.sampler import Sampler
from tests.redis.errors import failed_run, note_as
from tests.redis.inspector.examined import OURS, enqueue, payload, register

#: Findings of the server under test, which stores nothing on disk.
OF_SERVER = {"persistence", "eviction", "memory"}
NOISE_ROUNDS = 3


@pytest.fixture
def redis(config: Config):
    return Installation.of(config).redis


@pytest.fixture
def now(monkeypatch) -> float:
    """When the test and an examination look at the clock: no minute ends between them."""
    now = time.time()
    monkeypatch.setattr("offsider.inspector.findings.look.compare", lambda *_, **__: Comparison(0.001, now, 0.0))
    return now


@pytest.fixture
def run(redis, now) -> Callable[..., None]:
    """Record runs of a class that ended some minutes ago, as a worker does."""

    def record(name: str, minutes: range, runs: int, failed: int = 0, *, release: str = "v41", seconds: float = 0.05):
        for ago in minutes:
            one = Series({"class": name, "queue": "default", "urgency": "low"}, processed=runs, failed=failed)
            one.run_seconds = runs * seconds
            one.run_buckets[next(at for at, bound in enumerate(DURATION_SECONDS) if bound >= seconds)] = runs
            run_counts.add(redis, [one], now - ago * 60, wire_version=8, release=release)

    return record


def found(config: Config, **known: Finding) -> dict[str, Finding]:
    return {each.name: each for each in find(config, known) if each.kind != "server"}


@pytest.fixture
def worker(raw_redis):
    register(raw_redis, knows=["A"], queues=["default"])


# ------------------------------------------------------------------------------------------------- classes
def test_a_release_that_breaks_a_class_is_the_likely_cause(config, worker, run, redis, now):
    run("Invoice", range(6, 60), 100)
    run("Invoice", range(6), 20)
    run("Invoice", range(6), 100, 72, release="v42")
    run("Mail", range(60), 50, 3)
    at = (now // 60 - 5) * 60 - 16
    failed = [failed_run(at + number, name="Invoice", release="v42", user=f"u{number}") for number in range(3)]
    note_as(redis, "c0", *failed)
    [broken] = found(config).values()
    assert (broken.id, broken.severity, broken.kind) == ("broken:Invoice", Severity.ERROR, "broken")
    assert broken.what == "Invoice: 60 % of runs fail (was 0 %)"
    assert (broken.numbers["failed"], broken.numbers["runs"]) == (432, 720)
    assert broken.since == pytest.approx(at)
    assert broken.cause == "release v42 is the likely cause: 72 % of its 600 runs fail, 0 % of 120 of v41"
    assert broken.details[0] == "ValueError in mail.py:7 send: 3 jobs, 3 users"
    course = r"not recovering: 60 % failed at [0-9:]+ UTC, 60 % in the last minute; [0-9.]+ failures/s now"
    assert re.fullmatch(course, broken.details[1])
    assert broken.buttons[0].path == "/error/c0"
    assert broken.harm == pytest.approx(2 * 72, rel=0.3)


def test_a_release_is_no_cause_if_others_fail_as_often(config, worker, run):
    run("Invoice", range(6, 60), 100)
    run("Invoice", range(6), 50, 36)
    run("Invoice", range(6), 50, 36, release="v42")
    [broken] = found(config).values()
    assert broken.cause == "it began at the first run of release v42, but the runs of v41 fail as often"


@pytest.mark.parametrize(
    "releases, cause",
    [
        ({"v41": range(6)}, "no release that runs it began within ten minutes"),
        ({"v42": range(6)}, "it began with release v42; no other release ran beside it"),
        ({"v41": range(3, 6), "v42": range(2)}, "it began before the first run of release v42 at "),
        ({"v41": range(1, 6), "v42": range(5)}, "it began before the first run of release v42 at "),
    ],
)
def test_the_begin_of_a_broken_class_is_beside_that_of_releases(config, worker, run, releases, cause):
    run("Invoice", range(6, 60), 100)
    for release, minutes in releases.items():
        run("Invoice", minutes, 100, 80, release=release)
    assert found(config)["broken"].cause.startswith(cause)


def test_a_release_that_does_not_run_the_class_is_no_cause(config, worker, run):
    run("Invoice", range(6, 60), 100)
    run("Invoice", range(6), 100, 80)
    run("Mail", range(6), 50, release="v42")
    assert found(config)["broken"].cause == "no release that runs it began within ten minutes"


def test_a_class_that_has_always_failed_is_broken(config, worker, run, now):
    run("New", range(5), 4, 4)
    [broken] = found(config).values()
    assert broken.what == "New: 100 % of runs fail"
    assert broken.since == (now // 60 - 4) * 60


def test_a_class_with_few_runs_before_its_failures_is_broken_since_these(config, worker, run):
    run("New", range(8, 9), 2)
    run("New", range(2, 4), 10, 10)
    broken = found(config)["broken"]
    assert (broken.what, broken.since) == ("New: 100 % of runs fail", (time.time() // 60 - 3) * 60)
    assert broken.details == ("0.0 failures/s now",)  # without runs it neither recovers nor does not


def test_a_broken_class_is_known_for_longer_than_the_records(config, worker, run):
    run("Invoice", range(60), 100, 72)
    began = time.time() - 3 * 3_600
    known = {"broken:Invoice": _broken(began, was=0.01)}
    [again] = find_classes(config, known)
    assert (again.what, again.since) == ("Invoice: 72 % of runs fail (was 1 %)", pytest.approx(began, abs=60))
    assert again.cause == "release v42 is the likely cause"


def test_a_broken_class_that_recovers_is_no_finding(config, worker, run):
    run("Invoice", range(20, 60), 100)
    run("Invoice", range(6, 20), 100, 72)
    run("Invoice", range(6), 100, 1)
    assert find_classes(config, {}) == []
    assert find_classes(config, {"broken:Invoice": _broken(time.time() - 20 * 60, was=0.0)}) == []


def find_classes(config, known):
    return [each for each in find(config, known) if each.kind in ("broken", "slow")]


def _broken(since: float, was: float) -> Finding:
    return Finding(
        "broken",
        "Invoice: 70 % of runs fail",
        Severity.ERROR,
        cause="release v42 is the likely cause",
        actions=(),
        kind="broken",
        subject="Invoice",
        numbers={"was": was},
        since=since,
    )


def test_a_slow_class_is_compared_with_itself(config, worker, run, now):
    run("Courier", range(5, 60), 40, seconds=0.1)
    run("Courier", range(5), 40, seconds=8.0)
    run("Import", range(60), 40, seconds=60)
    [slow] = found(config).values()
    assert (slow.id, slow.severity) == ("slow:Courier", Severity.WARN)
    assert slow.what == "Courier: p95 8.5 s (was 100 ms)"
    assert slow.since == (now // 60 - 4) * 60
    run("Courier", range(5), 40, 30, seconds=8.0)
    [broken] = found(config).values()
    assert (broken.name, broken.details[-1]) == ("broken", "p95 8.5 s (was 100 ms)")


def test_of_500_classes_with_noise_none_is_broken_or_slow(config, worker, redis, now):
    """Noise has no order: recorded minutes that begin with another one are the hour of another class."""
    dice = random.Random(7)
    shares = {f"Job{number}": dice.choice((0.0, 0.02, 0.07, 0.4)) for number in range(25)}
    for ago in range(60):
        counts: list[Series] = []
        for name, share in shares.items():
            runs = dice.randrange(30)
            one = Series({"class": name}, runs, sum(dice.random() < share for _ in range(runs)))
            for _ in range(runs):
                one.run_buckets[min(len(one.run_buckets) - 1, int(dice.lognormvariate(1.5, 0.6)))] += 1
            counts.append(one)
        run_counts.add(redis, counts, now - ago * 60, wire_version=8, release="v1" if ago > 20 else "v2")
    assert find_classes(config, {}) == []
    recorded = [*Look(Installation.of(config)).runs.values()]
    for first in range(0, MINUTES, 60 // NOISE_ROUNDS):
        look = Look(Installation.of(config))
        hours = product(recorded, range(first, first + 500 // len(recorded)))
        vars(look)["runs"] = {f"Class{number}": rotated(*hour) for number, hour in enumerate(hours)}
        assert len(look.runs) == 500
        assert [*detect_classes(look)] == []


def rotated(releases: Sequence[MinuteCounts], minutes: int) -> list[MinuteCounts]:
    cut = minutes * releases[0].buckets.width
    return [
        replace(each, buckets=each.buckets._replace(cells=[*each.buckets.cells[cut:], *each.buckets.cells[:cut]]))
        for each in releases
    ]


# -------------------------------------------------------------------------------------------------- queues
def test_a_paused_queue_is_stopped_by_its_author(config, worker, raw_redis):
    enqueue(raw_redis, 660, jobs=7)
    assert "late" in found(config)
    Controls(config).hold("queue=default", reason="the partner is down", by="ann")
    [paused] = found(config).values()
    assert paused.what == "default: paused by ann (the partner is down); 7 jobs waiting, the next for 11 minutes"
    assert paused.since == pytest.approx(time.time(), abs=60)
    assert paused.buttons[0].path == "/controls/queue~3ddefault/resume"


def test_a_queue_that_ruby_paused_has_no_author(config, worker, raw_redis):
    enqueue(raw_redis, 60)
    raw_redis.sadd("paused", "default", "empty")
    [paused] = found(config).values()
    assert paused.what.startswith("default: paused by an unknown client; 3 jobs waiting")
    assert paused.since is None


def test_a_queue_whose_only_worker_is_quiet(config, raw_redis, redis):
    register(raw_redis, knows=["A"], queues=["default"], quiet="true")
    enqueue(raw_redis, 660)
    events.note(redis, events.QUIET, OURS)
    [quiet] = found(config).values()
    assert quiet.what.startswith(f"default: its only worker {OURS} is quiet since ")
    assert quiet.since == pytest.approx(time.time(), abs=60)
    assert quiet.actions[0].startswith(f"restart it: offsider stop {OURS}, then offsider worker")
    register(raw_redis, "web-3:19:ab0123456789", queues=["default"])
    assert "quiet" not in found(config)


@pytest.mark.parametrize("age_seconds, names", [(5, set()), (45, {"unserved"})])
def test_an_unserved_queue_is_stopped_after_a_moment(config, worker, raw_redis, age_seconds, names):
    enqueue(raw_redis, age_seconds, queue="mail")
    assert found(config).keys() == names


def test_the_sampler_logs_once_that_no_worker_serves_a_queue(config, worker, raw_redis, caplog):
    enqueue(raw_redis, 45, queue="mail")
    sampler = Sampler(config, Installation.of(config).redis)
    for _ in range(2):
        sampler.tick()
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("mail: no worker serves it; 3 jobs waiting, the next for 45 seconds")
    assert line.endswith("fix: offsider worker -r YOUR_MODULE -q mail")


@pytest.mark.parametrize("age_seconds, severity", [(50, None), (130, Severity.WARN), (36_100, Severity.ERROR)])
def test_a_late_queue(config, raw_redis, age_seconds, severity):
    register(raw_redis, knows=["A"], queues=["*"], concurrency=5, busy=1)
    enqueue(raw_redis, age_seconds, queue="mail")
    late = found(config).get("late")
    assert (late and late.severity) == severity
    if late:
        assert late.statement == f"3 jobs waiting, the next for {span(age_seconds)}, target 1 minute"
        assert late.cause == "1 of 5 threads of its 1 worker busy"
        assert late.since == pytest.approx(time.time() - age_seconds + 60, abs=60)


@pytest.mark.parametrize("ahead_seconds, late", [(7_200.0, False), (-7_200.0, True)])
def test_waiting_jobs_are_judged_by_the_clock_of_the_server(config, worker, raw_redis, ahead_seconds, late):
    enqueue(raw_redis, age_seconds=300 if late else 10)
    config.clock = FakeClock(time.time() + ahead_seconds)
    assert ("late" in found(config)) == late


# ---------------------------------------------------------------------------------------------------- jobs
def test_processes_that_die_one_after_another(config, worker, redis):
    for number in range(2):
        events.note(redis, events.DIED, f"web-2:{number}:0123456789ab", how="was killed by SIGSEGV", jobs=1)
    assert found(config) == {}
    events.note(redis, events.DIED, "web-2:9:0123456789ab", how="was killed by SIGKILL")
    [crash] = found(config).values()
    assert (crash.kind, crash.numbers) == ("crash", {"deaths": 3, "jobs": 2})
    assert crash.what == "3 processes died in 1 second: 2x SIGSEGV, 1x SIGKILL"
    assert crash.cause == "on web-2; they interrupted 2 jobs"


def test_poison_pills(config, worker, redis):
    events.note(redis, events.POISON_PILL, "a" * 24, **{"class": "Pill"})
    [pill] = found(config).values()
    assert (pill.what, pill.details) == ("1 poison pill moved to the dead set", (f"Pill {'a' * 24}",))
    assert pill.actions[0].endswith("offsider jobs --where dead --error offsider.PoisonPill")


@pytest.mark.parametrize("age_seconds, held", [(100, 0), (540, 1)])
def test_threads_that_a_job_holds_up(config, raw_redis, run, age_seconds, held):
    register(raw_redis, knows=["A"])
    run("A", range(1, 10), 20, seconds=30)
    work = {"queue": "default", "payload": payload("A"), "run_at": int(time.time()) - age_seconds}
    raw_redis.hset(f"{OURS}:work", "a", json.dumps(work))
    names = found(config)
    assert len(names) == held
    if held:
        assert names["held"].what == f"A: 1 thread of {OURS} held for 9 minutes"
        assert names["held"].since == pytest.approx(time.time() - age_seconds, abs=60)


@pytest.mark.parametrize("age_seconds, held", [(3_600, 0), (4 * 3_600, 1)])
def test_a_run_of_hours_is_held_up_without_earlier_runs(config, raw_redis, age_seconds, held):
    register(raw_redis, knows=["A"])
    work = {"queue": "default", "payload": payload("A"), "run_at": int(time.time()) - age_seconds}
    raw_redis.hset(f"{OURS}:work", "a", json.dumps(work))
    assert len(found(config)) == held


@pytest.fixture
def hold(redis, raw_redis):
    """Hold jobs of a group that were enqueued some seconds ago, with one slot in use."""

    def act(group: str, age_seconds: float, jobs: int = 2) -> None:
        raw_redis.sadd("offsider:groups", group)
        raw_redis.zadd(f"offsider:slots:{group}", {f"{OURS} 1 b": time.time() * 1000})
        for number in range(jobs):
            job = json.loads(payload(group.partition("[")[0], jid=f"{number:024}"))
            at = int((time.time() - age_seconds) * 1000)
            raw_redis.lpush(f"offsider:held:{group}", json.dumps(job | {"enqueued_at": at}))

    return act


@pytest.mark.parametrize("group", ["Export", "Export[42]"])
def test_jobs_that_wait_for_a_limit(config, worker, redis, hold, group):
    slots.declare(redis, {"Export": (1, Rate())}, time.time())
    hold(group, 60)
    assert found(config) == {}
    hold(group, 660)
    hold("Other", 660, jobs=0)
    redis.call("RPOP", redis.keys.held(group))
    redis.call("RPOP", redis.keys.held(group))
    [limited] = found(config).values()
    assert limited.what == "Export: 2 jobs held, the next for 11 minutes; 1 of 1 slot in use"
    assert (limited.kind, limited.buttons[0].path) == ("limited", "/controls/Export")


def test_classes_under_a_control_are_stopped(config, worker, hold):
    hold("Export", 660)
    controls = Controls(config)
    controls.hold("Export", by="ann", reason="audit")
    [control] = found(config).values()
    assert (control.kind, control.what) == ("stopped", "Export: held by ann (audit)")
    assert (control.numbers, control.since) == ({"jobs": 2}, pytest.approx(time.time(), abs=30))
    assert [each.path for each in control.buttons] == ["/controls/Export", "/controls/Export/resume"]
    controls.resume("Export")
    controls.defer("Export[42]", 60, by="ann", lasting=600)
    controls.run("Mail")
    control = found(config)["control"]
    assert re.fullmatch(r"Export: one key, deferred by 60 s by ann until \d\d:\d\d:\d\d UTC", control.what)
    assert [each.path for each in control.buttons] == ["/controls"]


# --------------------------------------------------------------------------------------------- the stored ones
def test_findings_are_stored_with_their_begin_and_ended(config, worker, raw_redis):
    enqueue(raw_redis, 45)
    raw_redis.sadd("paused", "default")
    [first] = [each for each in refresh(config) if each.kind != "server"]
    assert first.since == pytest.approx(time.time(), abs=30)
    assert [each for each in stored(config) if each.kind != "server"] == [first]
    assert refresh(config) == []
    assert next(each for each in stored(config) if each.name == "paused").since == first.since
    raw_redis.srem("paused", "default")
    assert refresh(config) == []
    assert "paused:default" not in {each.id for each in stored(config)}
    kinds = [(event.kind, event.subject) for event in EventLog(config).read(subject="default")]
    assert kinds == [("finding-ended", "default"), ("finding-new", "default")]


def test_a_finding_began_once(config, worker, hold, raw_redis):
    hold("Export", 900)
    refresh(config)
    [before] = (each.since for each in stored(config) if each.name == "limited")
    raw_redis.delete("offsider:held:Export")  # they have run, and later ones wait
    hold("Export", 660)
    refresh(config)
    assert [each.since for each in stored(config) if each.name == "limited"] == [before]


def test_a_refused_command_is_not_asked_again(config, raw_redis, worker):
    rules = "on >secret ~* -@all +@read +@write +@connection +@transaction +@scripting +time -@dangerous"
    raw_redis.execute_command("ACL", "SETUSER", "x", *rules.split())
    config.redis.username, config.redis.password = "x", "secret"

    def refused() -> int:
        return sum(int(entry[b"count"]) for entry in raw_redis.execute_command("ACL", "LOG"))

    try:
        refresh(config)
        before, first = {each.id for each in stored(config)}, refused()
        refresh(config)
        assert {each.id for each in stored(config)} == before >= {"unknown"}
        assert refused() == first
    finally:
        raw_redis.execute_command("ACL", "DELUSER", "x")


@pytest.mark.parametrize("written", [None, "no JSON", "[]", '{"at": 1e12, "findings": [{"kind": 1}]}', '{"at": 5}'])
def test_without_a_worker_that_refreshes_them_they_are_looked_for(config, worker, raw_redis, written):
    enqueue(raw_redis, 45, queue="mail")
    if written is not None:
        raw_redis.set("offsider:findings", written)
    assert "unserved:mail" in {each.id for each in stored(config)}
    assert not raw_redis.exists("offsider:findings") or raw_redis.get("offsider:findings") == written.encode()


def test_reading_them_costs_one_command(config, worker, raw_redis, monkeypatch):
    refresh(config)
    redis = Installation.of(config).redis
    sent: list[str] = []
    pipeline = redis.pipeline

    def counted(commands, **options):
        sent.extend(command[0] for command in commands)
        return pipeline(commands, **options)

    monkeypatch.setattr(redis, "pipeline", counted)
    stored(config)
    assert sent == ["GET"]


def test_a_finding_is_muted_and_unmuted(config, worker, raw_redis):
    enqueue(raw_redis, 45, queue="mail")
    refresh(config)
    mute("unserved:mail", 3_600, config, by="ann")
    muted = next(each for each in stored(config) if each.name == "unserved")
    assert (muted.muted_by, muted.muted_until) == ("ann", pytest.approx(time.time() + 3_600, abs=60))
    unmute("unserved:mail", config)
    assert next(each for each in stored(config) if each.name == "unserved").muted_until is None
    mute("unserved:mail", 1, config)
    raw_redis.hset("offsider:findings:muted", "unserved:mail", json.dumps({"until": time.time() - 1, "who": "ann"}))
    refresh(config)
    assert next(each for each in stored(config) if each.name == "unserved").muted_until is None
    assert not raw_redis.exists("offsider:findings:muted")
    with pytest.raises(UnknownSubject, match="did you mean 'unserved:mail'"):
        mute("unserved:mial", 3_600, config)
    with pytest.raises(UnknownSubject, match="is not muted"):
        unmute("unserved:mail", config)
    with pytest.raises(ConfigurationError, match="the time to mute"):
        mute("unserved:mail", 0, config)


def test_a_finding_survives_json(config, worker, raw_redis):
    enqueue(raw_redis, 45, queue="mail")
    raw_redis.sadd("paused", "mail")
    for finding in find(config):
        assert from_json(json.loads(json.dumps(as_json(finding)))) == finding


def test_of_many_findings_alike_some_are_named_and_the_others_counted(config, worker, raw_redis, monkeypatch):
    monkeypatch.setattr("offsider.inspector.findings.examination.MAX_ALIKE", 2)
    for number in range(5):
        enqueue(raw_redis, 660, queue=f"q{number}")
    assert len([each for each in refresh(config) if each.name == "unserved"]) == 3
    enqueue(raw_redis, 660, queue="a", jobs=100)  # more harm, but the others are known
    assert not refresh(config)
    assert {each.id: each.what for each in stored(config)}["unserved"].startswith("unserved: 4 more, such as a, q")


def test_findings_of_an_extension(config, worker):
    own = Finding("shop", "shop: closed", Severity.WARN, cause="it is night", actions=(), subject="shop", harm=5.0)
    config.findings.append(lambda server: [own])
    assert find(config)[0] == own


def test_shares_and_times_are_formatted():
    assert [percent(0), percent(0.004), percent(0.72), percent(1)] == ["0 %", "0.4 %", "72 %", "100 %"]
    assert [seconds_text(0.02), seconds_text(8.5), seconds_text(335)] == ["20 ms", "8.5 s", "335 s"]
    assert span(42.5) == "42 seconds"
