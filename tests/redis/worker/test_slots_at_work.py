"""Slots with a real worker: never over a limit, held jobs keep their order and are not counted, none is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, example, given, settings as bounds, strategies as st

from offsider import Client, Config, Discard, job
from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused, RedisUnavailable, Reschedule
from offsider.core.outcome import NotStarted, Rescheduled, Succeeded
from offsider.core.payload import decode, encode
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Locks, Unique
from offsider.inspector import Controls, RetrySet, ScheduledSet, Stats
from offsider.inspector.search import place_of
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Middleware, MiddlewareChain
from offsider.storage import owners, queues, slots, working
from offsider.storage.effects import run_alone
from offsider.storage.owners import Lists
from offsider.storage.redis import Redis
from offsider.storage.slots import Candidate, LimitedRun, Rate, SlotAnswer, SlotGroup
from offsider.storage.working import Owner, PrivateListEntry
from offsider.testing import RunningWorker
from offsider.worker import controls as reader_module
from offsider.worker.controls import KnownControls as Known
from offsider.worker.run import control_admission, control_rules, slots as slots_module
from offsider.worker.run.control_admission import Admission
from offsider.worker.run.control_rules import ControlRules
from offsider.worker.run.slots import REPAIR_SECONDS, Slots
from tests.faults import FaultProxy
from tests.waiting import wait_for

#: A worker that can run every job.
CAN_RUN = SimpleNamespace(judge=lambda job, declared: None)


@pytest.fixture(autouse=True)
def quick(monkeypatch, declared) -> None:
    """Read and check often, so that tests need not wait for a second."""
    monkeypatch.setattr(reader_module, "READ_SECONDS", 0.05)
    monkeypatch.setattr(slots_module, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(slots, "CHECK_MS", 50)


@pytest.fixture
def config(config):
    config.worker.timeout_seconds = 5
    config.use(ConcurrencyLimits())
    return config


@pytest.fixture
def redis(config):
    return Installation.of(config).redis


@pytest.fixture
def client(config):
    return Client(config)


@pytest.fixture
def controls(config):
    return Controls(config)


class Starts(dict):
    """The starts of `Act` for a that the server counts, in ms: the threads of the jobs may see the clock much later."""

    def __init__(self, raw_redis):
        self.raw_redis = raw_redis

    def look(self, _number=None):
        for key in self.raw_redis.keys("*starts:Act?a?"):
            self.update(self.raw_redis.zrange(key, 0, -1, withscores=True))
        return True

    def waits_of_a(self, later):
        ms = sorted(self.values())
        return [last - first for first, last in zip(ms, ms[later:], strict=False)]


class Stage:
    """The class ``Act`` of a test: how many run at one time, by the first argument, and in which order they began."""

    def __init__(self, limit=1, **options):
        self.lock = threading.Lock()
        self.running, self.most = Counter(), Counter()
        self.began, self.ended = [], []
        self.go_on = threading.Event()
        self.does = lambda number: None
        job(name="Act", retry=1, **({"concurrency_limit": limit} if limit else {}), **options)(self.act)

    def act(self, number=0, seconds: float = 0) -> None:
        with self.lock:
            for each in (number, "all"):
                self.running[each] += 1
                self.most[each] = max(self.most[each], self.running[each])
            self.began.append(number)
        try:
            self.go_on.wait(60)
            time.sleep(seconds)
            self.does(number)
        finally:
            with self.lock:
                self.running -= Counter({number: 1, "all": 1})
                self.ended.append(number)


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
def push(client):
    def push(*numbers, **options):
        return [client.push({"class": "Act", "args": [number], **options}) for number in numbers]

    return push


def held(controls, subject="Act"):
    places = (place_of(controls._server, controls.held_place(group)) for group in controls._groups_of(subject))
    return [record.args[0] for place in places for record in place]


@pytest.mark.parametrize("fetcher", ["reliable", "basic"])
def test_jobs_over_the_limit_are_held_and_run_when_slots_are_free(config, stage, push, caplog, fetcher):
    caplog.set_level("INFO", "offsider")
    controls = Controls(config)
    reported = []
    config.on("execution_finished", lambda news: reported.append(news.outcome))
    config.worker.fetcher = fetcher
    config.worker.concurrency = 4
    push(*range(8))
    with RunningWorker(config):
        wait_for(lambda: len(held(controls)) == 7)
        assert reported == []
        stage.go_on.set()
        wait_for(lambda: len(stage.ended) == 8)
    assert (stage.most["all"], sorted(stage.began)) == (1, list(range(8)))
    assert [group.in_use for group in controls.groups("Act")] == [0]
    stats = Stats.read(config)
    assert (stats.processed, stats.failed, reported) == (8, 0, ["succeeded"] * 8)
    output = [record.getMessage() for record in caplog.records]
    assert [output.count(word) for word in ("moved", "start", "done")] == [7, 8, 8], "a held job does not start"
    assert len(RetrySet(config)) == 0


@pytest.mark.parametrize("subject", ["Act", "Act[7]", "urgency=low", "*"])
def test_jobs_are_held_until_the_control_ends(config, push, controls, redis, subject):
    stage = Stage(0, key=lambda number: 7)
    config.worker.concurrency = 1
    stage.go_on.set()
    controls.hold(subject, reason="the bank is down")
    push(*range(8))
    with RunningWorker(config):
        wait_for(lambda: held(controls, subject) == list(range(8)))
        assert stage.began == []
        controls.resume(subject)
        wait_for(lambda: len(stage.ended) == 8)
        wait_for(lambda: not redis.keys.groups_due or not redis.call("EXISTS", redis.keys.groups_due))
    assert stage.began == list(range(8))
    assert (queues.extension_lists(redis), Stats.read(config).processed) == ([], 8)


def test_a_queue_is_paused_as_ruby_does_and_its_author_is_known(config, stage, push, controls, raw_redis):
    stage.go_on.set()
    controls.hold("queue=default", by="ann")
    assert raw_redis.smembers("paused") == {b"default"}
    push(1)
    with RunningWorker(config):
        raw_redis.sadd("paused", "low")
        assert [(one.subject, one.by) for one in controls] == [("queue=default", "ann"), ("queue=low", "")]
        assert (stage.began, raw_redis.llen("queue:default")) == ([], 1)
        raw_redis.srem("paused", "default")  # as Ruby does
        wait_for(lambda: stage.ended == [1])
    assert [one.subject for one in controls] == ["queue=low"]


def test_a_limit_of_a_selector_counts_the_jobs_of_all_its_classes(config, push, controls, client):
    stage = Stage(0)
    job(name="Other")(stage.act)
    config.worker.concurrency = 6
    controls.limit("urgency=low", 2)
    push(*range(4))
    client.push_bulk({"class": "Other", "args": [[4], [5]]})
    with RunningWorker(config):
        wait_for(lambda: len(held(controls, "urgency=low")) == 4)
        assert len(controls.holders("urgency=low")) == 2
        stage.go_on.set()
        wait_for(lambda: len(stage.ended) == 6)
    assert stage.most["all"] <= 2


@pytest.mark.parametrize("error", [ValueError("broken"), Discard("no"), Reschedule(600), SystemExit(1)])
def test_every_outcome_frees_the_slot(config, stage, push, controls, error):
    def raise_it(number):
        if number == 1:
            raise error

    stage.does = raise_it
    stage.go_on.set()
    push(1, 2)
    with RunningWorker(config):
        wait_for(lambda: sorted(stage.ended) == [1, 2])
    assert [group.in_use for group in controls.groups("Act")] == [0]


def test_a_limit_for_an_unknown_class_logs_a_warning_at_startup(redis_url, caplog):
    config = Config()
    config.redis.url = redis_url
    config.use(ConcurrencyLimits(limits={"Act": 3, "Actt": 3, "urgency=high": 1}))
    Stage()
    with RunningWorker(config):
        pass
    reported = [record.getMessage() for record in caplog.records if "ConcurrencyLimits" in record.getMessage()]
    assert len(reported) == 1
    assert "unknown job 'Actt' (did you mean" in reported[0]
    Installation.of(config).close()


def test_a_held_job_keeps_its_lock(config, stage, push, controls):
    config.use(Unique())
    controls.hold("Act")
    push(1, unique_for=600, unique_until="start")
    with RunningWorker(config):
        wait_for(lambda: held(controls) == [1])
        assert len(Locks(config)) == 1
        stage.go_on.set()
        controls.resume("Act")
        wait_for(lambda: stage.ended == [1])
        assert len(Locks(config)) == 0


def test_a_job_whose_payload_names_another_queue_returns_to_its_own_queue(config, stage, controls, raw_redis):
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", encode({"class": "Act", "args": [1], "jid": "a" * 24, "queue": "elsewhere"}))
    controls.hold("Act")
    with RunningWorker(config):
        wait_for(lambda: held(controls) == [1])
    assert decode(raw_redis.lindex("offsider:held:Act", -1))["queue"] == "default"


# ------------------------------------------------------------------------------------------ keys


def test_each_key_has_its_own_slots_and_held_jobs(config, push, controls, redis):
    stage = Stage(key=lambda number: number)
    config.worker.concurrency = 8
    push("a", "a", "a", "b", "b", None)
    with RunningWorker(config):
        wait_for(lambda: len(stage.began) == 3 and controls.count_held("Act") == 3)
        assert [(key.name, key.in_use, key.held) for key in controls.keys("Act")] == [
            ("Act[a]", 1, 2),
            ("Act[b]", 1, 1),
        ]
        (group,) = controls.groups()
        assert (group.name, group.limit, group.in_use, group.keys) == ("Act", 1, 3, 2)
        assert (held(controls), held(controls, "Act[b]")) == (["a", "a", "b"], ["b"])
        controls.limit("Act", 2)
        wait_for(lambda: stage.most["a"] == stage.most["b"] == 2)
        stage.go_on.set()
        wait_for(lambda: len(stage.began) == 6)
    for name in slots.groups(redis):
        slots.forget(redis, SlotGroup(name, 1))
    assert (slots.groups(redis), queues.extension_lists(redis), redis.call("KEYS", "*Act[[]*")) == ([], [], [])


def test_concurrency_rate_and_share_apply_to_one_key_together(config, push, controls, monkeypatch, raw_redis):
    monkeypatch.setattr(control_rules, "EVALUATE_SECONDS", 0.1)  # it counts the threads of the fleet
    stage = Stage(2, rate_limit="3/1", key=lambda number: number, fair_share=0.25)
    stage.does = (starts := Starts(raw_redis)).look
    config.worker.concurrency = 8
    push(*"aaaaab")
    with RunningWorker(config):
        wait_for(lambda: len(stage.began) == 3 and controls.count_held("Act") == 3)
        assert stage.most["a"] == 2
        stage.go_on.set()
        wait_for(lambda: starts.look() and len(stage.ended) == 6)
    assert stage.most["a"] == 2
    assert min(starts.waits_of_a(3)) >= 1_000, "the fourth start of a waits for the window"


def test_no_more_jobs_of_a_key_start_in_a_window_than_the_rate_allows(config, push, controls, raw_redis):
    stage = Stage(0, rate_limit="2/1", key=lambda number: number)
    starts = Starts(raw_redis)
    stage.does = starts.look
    stage.go_on.set()
    push(*"aaaaab")
    with RunningWorker(config):
        wait_for(lambda: len(stage.ended) == 3)
        assert [group.rate for group in controls.groups()] == [Rate(2, 1000)]
        wait_for(lambda: starts.look() and len(stage.ended) == 6)
    assert min(starts.waits_of_a(2)) >= 1_000
    assert sum(starts.waits_of_a(1)) < 12_000, "held jobs start soon after the window, before the next repair"
    wait_for(lambda: not raw_redis.keys("offsider:starts:*"))


def test_jobs_of_a_small_tenant_start_while_a_large_one_waits(config, client, controls):
    stage = Stage(0, key=lambda number: number, fair_share=0.25)
    stage.go_on.set()
    config.worker.concurrency = 8
    client.push_bulk({"class": "Act", "args": [["large", 0.05]] * 3_000})
    with RunningWorker(config):
        wait_for(lambda: len(stage.began) > 4)
        pushed = time.monotonic()
        client.push_bulk({"class": "Act", "args": [["small", 0.001]] * 10})
        wait_for(lambda: stage.began.count("small") == 10, 25)
        took, done = time.monotonic() - pushed, stage.began.count("large")
        controls.hold("Act")
        wait_for(lambda: not stage.running["all"])
    assert stage.most["large"] <= 2
    assert took < 20, "3,000 jobs of 50 ms in two threads take 75 seconds"
    assert done < 1_500


# -------------------------------------------------------------------------------- the server fails


class Failing:
    """An admission whose script fails as the test decides."""

    def __init__(self, config, monkeypatch, *answers):
        self.asked = []
        self.answers = list(answers)
        self.errors = []
        config.error_handlers.append(lambda error, context: self.errors.append(context["context"]))
        redis = Installation.of(config).redis
        rules = ControlRules(config, redis)
        self.admission = Admission(config, redis, rules, Slots(config, redis, rules, Known()), CAN_RUN)
        monkeypatch.setattr(slots, "take", self.take)
        monkeypatch.setattr(control_admission, "OUTAGE_SECONDS", 0.01)

    def take(self, *args, again):
        self.asked.append(again)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer, None

    def run(self, *, stopping=False):
        payload = {"class": "Act", "args": [], "jid": "a" * 24, "queue": "default"}
        context = JobContext(payload, "default", encode(payload), is_stopping=lambda: stopping, alone_in="host:1:a")
        return MiddlewareChain[JobContext]((self.admission,)).run(context, lambda _: Succeeded())


def test_after_a_lost_reply_the_request_is_repeated_and_marked_as_repeated(config, stage, monkeypatch):
    lost, never_sent = RedisUnavailable("lost", ambiguous=True), RedisUnavailable("refused")
    failing = Failing(config, monkeypatch, never_sent, lost, never_sent, SlotAnswer.TAKEN)
    assert failing.run() == Succeeded()
    assert failing.asked == [False, False, True, True]
    assert failing.errors == ["acquiring a slot"]


@pytest.mark.parametrize(
    "answer, outcome",
    [
        (RedisRefused("NOPERM no"), Rescheduled(control_admission.REFUSED_SECONDS, "cannot check its limits")),
        (SlotAnswer.LOST, NotStarted("elsewhere", reason="another process", name="moved")),
    ],
)
def test_a_job_without_an_answer_does_not_run(config, stage, monkeypatch, answer, outcome):
    assert Failing(config, monkeypatch, answer).run() == outcome


@pytest.fixture
def proxied(redis_url, monkeypatch):
    """The configuration of a worker whose server is behind a proxy."""
    monkeypatch.setattr(control_admission, "OUTAGE_SECONDS", 0.01)
    with FaultProxy(redis_url) as proxy:
        config = Config()
        config.redis.url = proxy.url
        config.redis.socket_timeout_seconds = 30
        config.use(ConcurrencyLimits())
        yield config, proxy
        Installation.of(config).close()


@pytest.mark.parametrize("kind", ["reply", "request"])
@pytest.mark.parametrize("limit", [1, -1], ids=["taken", "held"])
def test_a_lost_reply_neither_loses_nor_repeats_a_job(proxied, raw_redis, kind, limit):
    config, proxy = proxied
    stage, controls = Stage(limit), Controls(config)
    stage.go_on.set()
    Client(config).push({"class": "Act", "args": [7]})
    raw_redis.script_load(slots.TAKE_SLOTS.text)
    getattr(proxy, f"lose_{kind}")(slots.TAKE_SLOTS.sha.encode())
    with RunningWorker(config):
        wait_for(lambda: proxy.lost == 1)
        if limit < 0:
            wait_for(lambda: held(controls) == [7])
            assert stage.ended == []
            controls.limit("Act", 1)
        wait_for(lambda: stage.ended == [7])
    assert raw_redis.llen("offsider:held:Act") == 0
    assert len(ScheduledSet(config)) == len(RetrySet(config)) == 0
    assert stage.began == [7]


# --------------------------------------------------------------------------------------- the service

ALIVE = "host:1:0123456789ab"
GONE = "host:2:0123456789ab"
HARD = SlotGroup("Hard", 1)


@pytest.fixture
def service(config, redis):
    job(name="Hard", concurrency_limit=1)(lambda: None)
    owners.beat(redis, Lists(ALIVE, {"default": ("default",)}), 60_000)
    return Slots(config, redis, ControlRules(config, redis), Known())


def run_of(process, number=1):
    return LimitedRun(f"{process} {number} {'a' * 24}", process, (HARD,))


def a_run():
    return JobContext({"class": "Hard", "args": [], "jid": "a" * 24}, "default")


def take(raw_redis, run):
    raw_redis.zadd("offsider:slots:Hard", {run.member: 1})
    raw_redis.sadd("offsider:groups", "Hard")


def hold(raw_redis, *jids):
    raw_redis.zadd("offsider:groups:due", {"Hard": 0})
    raw_redis.sadd("offsider:places", "offsider:held:Hard")
    for jid in jids:
        raw_redis.lpush("offsider:held:Hard", encode({"class": "Hard", "args": [], "jid": jid, "queue": "default"}))


@pytest.mark.parametrize("reply, resumed", [(0, 0), (1, 1), (None, 1)])
def test_held_jobs_are_resumed_if_any_are_reported_or_the_reply_was_lost(service, redis, raw_redis, reply, resumed):
    job = a_run()
    service.tick()
    take(raw_redis, run_of(ALIVE))
    with service.occupy(run_of(ALIVE), job):
        hold(raw_redis, "b", "c")
    (effect,) = job.effects
    assert run_alone(redis, [effect]) == [2]
    assert raw_redis.zcard("offsider:slots:Hard") == 0
    service._check_at = float("inf")
    effect.done(reply, Succeeded())
    service.tick()
    assert raw_redis.llen("queue:default") == resumed


def test_the_slot_of_a_run_that_ended_without_a_written_outcome_is_freed_by_its_process(
    service, raw_redis, monkeypatch
):
    """The run was void, or its thread died: no outcome has freed the slot, though the process lives."""
    void, running = run_of(ALIVE, 1), run_of(ALIVE, 2)
    for run in (void, running):
        take(raw_redis, run)
    now = time.monotonic()
    with service.occupy(running, a_run()):
        with service.occupy(void, a_run()):
            pass
        for round_, left in enumerate([2, 1, 1]):  # once is not enough: its outcome may not be written yet
            monkeypatch.setattr(slots_module.time, "monotonic", lambda round_=round_: now + round_ * REPAIR_SECONDS)
            service.check()
            assert raw_redis.zcard("offsider:slots:Hard") == left


def test_a_run_acquires_its_slot_again_after_the_server_lost_it(service, redis, raw_redis):
    job = a_run()
    with service.occupy(run_of(ALIVE), job):
        service.check()
        assert [holder.member for holder in slots.holders(redis, "Hard")] == [run_of(ALIVE).member]
        raw_redis.delete("offsider:slots:Hard")
        job.effects = ()  # its outcome is written though it still runs: it has overrun its hard limit
        service.check()
    service.check()
    assert raw_redis.zcard("offsider:slots:Hard") == 0


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_run_that_ends_while_reacquiring_its_slot_does_not_keep_it(service, raw_redis, monkeypatch, when):
    holding = service.occupy(run_of(ALIVE), a_run())
    real = {"before": slots.missing, "during": slots.keep}[when]

    def end_first(*args):
        result = real(*args) if when == "before" else None
        holding.__exit__(None, None, None)
        return result if when == "before" else real(*args)

    monkeypatch.setattr(slots, real.__name__, end_first)
    holding.__enter__()
    service.check()
    assert raw_redis.zcard("offsider:slots:Hard") == 0


@pytest.mark.parametrize("process, resumed", [(GONE, 1), (ALIVE, 0)])
def test_slots_of_a_dead_process_are_used_by_held_jobs(service, raw_redis, caplog, process, resumed):
    take(raw_redis, run_of(process))
    hold(raw_redis, "b")
    service.check()
    assert raw_redis.llen("queue:default") == resumed
    assert ("reclaimed 1 slot of Hard held by dead processes" in caplog.text) == bool(resumed)


@pytest.mark.parametrize("step", ["some_groups", "due_groups", "free_dead", "resume"])
def test_a_check_that_failed_is_repeated_as_a_whole_a_second_later(service, raw_redis, monkeypatch, step):
    take(raw_redis, run_of(GONE))
    hold(raw_redis, "b")

    def fail(*_args, **_options):
        raise RedisRefused("BUSY")

    with monkeypatch.context() as failing:
        failing.setattr(slots, step, fail)
        for _ in range(2):
            service._check_at = 0.0
            assert service.tick() == slots_module.CHECK_SECONDS
    service._check_at = 0.0
    service.tick()
    assert raw_redis.llen("queue:default") == 1


def test_one_process_at_a_time_resumes_held_jobs(service, config, redis, raw_redis):
    other = Slots(config, redis, ControlRules(config, redis), Known())
    hold(raw_redis, "a")
    service.check()
    assert raw_redis.llen("queue:default") == 1
    raw_redis.delete("queue:default", "offsider:resumed:Hard", "offsider:resumed-payloads:Hard")
    hold(raw_redis, "b")
    other.check()
    assert raw_redis.llen("queue:default") == 0
    service.check()
    assert raw_redis.llen("queue:default") == 1


def test_the_limit_of_a_class_declared_elsewhere_is_the_one_that_workers_publish(service, config, redis, raw_redis):
    raw_redis.zadd("offsider:groups:due", {"Foreign": 0})
    for number in range(3):
        foreign = {"class": "Foreign", "args": [], "jid": str(number), "queue": "default"}
        raw_redis.lpush("offsider:held:Foreign", encode(foreign))
    slots.declare(redis, {"Foreign": (2, Rate())}, config.clock.now())
    service.check()
    assert raw_redis.llen("queue:default") == 2


def test_after_a_limit_was_raised_by_thousands_the_start_of_each_part_resumes_the_next(service, redis, raw_redis):
    """The next part would overtake the first in the queue."""
    hold(raw_redis, *(f"j{number}" for number in range(250)))
    group, started = SlotGroup("Hard", 1000), []
    service.resume_soon(group)
    service.tick()
    while raw := raw_redis.rpop("queue:default"):
        jid = decode(raw)["jid"]
        run = LimitedRun(f"{ALIVE} {len(started) + 1} {jid}", ALIVE, (group,))
        answer, _ = slots.take(redis, run, Candidate(raw, raw, None))
        started.append(jid)
        assert (answer is SlotAnswer.TAKEN_LAST) == (len(started) in (100, 200))
        if answer is SlotAnswer.TAKEN_LAST:
            service.resume_soon(group)
            service.tick()
    assert started == [f"j{number}" for number in range(250)]


def test_jobs_of_a_full_group_are_held_in_batches_and_a_failed_batch_is_repeated(
    service, redis, raw_redis, monkeypatch
):
    owner = Owner(ALIVE, "default")
    working = redis.keys.working(ALIVE, "default", "default")
    monkeypatch.setattr(slots_module, "FULL_SECONDS", 60.0)
    service.note_full(HARD)
    for number in range(250):
        raw = encode({"class": "Hard", "args": [], "jid": f"j{number}", "queue": "default"})
        raw_redis.lpush(working, raw)
        assert service.hold_soon(run_of(ALIVE), Candidate(raw, raw, PrivateListEntry(owner, "default", raw)))
    assert not service.hold_soon(run_of(ALIVE), Candidate(b"", b"", None)), "it is in no private list"

    def fail(*args):
        raise RedisUnavailable("away")

    take(raw_redis, run_of(ALIVE))
    with monkeypatch.context() as broken:
        broken.setattr(slots, "hold", fail)
        service.start()
        wait_for(lambda: service.ticks >= 1)
        assert raw_redis.llen(working) == 250
    service.stop()
    assert service.join(10), "a stopping worker writes them"
    jids = [decode(raw)["jid"] for raw in reversed(raw_redis.lrange("offsider:held:Hard", 0, -1))]
    assert (jids, raw_redis.llen(working)) == ([f"j{number}" for number in range(250)], 0)
    monkeypatch.setattr(slots_module, "MAX_COLLECTED", 0)
    service.note_full(HARD)
    assert not service.hold_soon(run_of(ALIVE), Candidate(raw, raw, PrivateListEntry(owner, "default", raw)))


# ---------------------------------------------------------------------------------- any sequence


class Process:
    """A worker whose threads and services act only when a test says so."""

    def __init__(self, config: Config, redis: Redis, number: int) -> None:
        self.redis = redis
        self.rules = ControlRules(config, redis)
        self.slots = Slots(config, redis, self.rules, Known())
        self.admission = Admission(config, redis, self.rules, self.slots, CAN_RUN)
        self.owner = Owner(f"host:{number}:0123456789ab", "default")
        owners.beat(redis, Lists(self.owner.identity, {"default": ("default",)}), 60_000)
        self.running: list[tuple[JobContext, PrivateListEntry, Middleware]] = []

    def know(self) -> None:
        self.rules.update(changed=True)

    def claim(self) -> None:
        for entry in working.claim(self.redis, self.owner, ("default",), 1):
            job = JobContext(decode(entry.raw), "default", entry.raw, owner=self.owner)
            run = self.admission(job)
            if next(run, "refused") is None:
                self.running.append((job, entry, run))

    def end(self) -> list[str]:
        if not self.running:
            return []
        job, entry, run = self.running.pop(0)
        with suppress(StopIteration):
            run.send(Succeeded())
        assert working.acknowledge(self.redis, entry)
        replies = run_alone(self.redis, job.effects)
        for effect, reply in zip(job.effects, replies, strict=True):
            effect.done(reply, Succeeded())
        return [job.jid]

    def look(self) -> None:
        self.slots._check_at = 0.0
        self.slots.tick()

    def compare(self) -> None:
        """Requeue what the process does not know, as after a lost reply."""
        listed = Counter(owners.newest(self.redis, Lists(self.owner.identity, {self.owner.capsule: ["default"]})))
        unknown = listed - Counter([*self.slots._controls.to_hold(), *(entry for _, entry, _ in self.running)])
        working.put_back(self.redis, [(entry, entry.raw) for entry in unknown.elements()])


class Held:
    """Two processes, and the controls of one class. After each step each job is in one place, or it has ended."""

    def __init__(self, config: Config, raw_redis) -> None:
        raw_redis.flushdb()
        self.client = raw_redis
        self.controls = Controls(config)
        redis = Installation.of(config).redis
        self.processes = [Process(config, redis, number) for number in (1, 2)]
        self.pushed: list[str] = []
        self.ended: list[str] = []

    def do(self, step: str) -> None:
        name, _, number = step.partition(" ")
        match name:
            case "push":
                self.pushed.append(jid := f"j{len(self.pushed)}")
                payload = {"class": "Act", "args": [], "jid": jid, "queue": "default"}
                self.client.lpush("queue:default", encode(payload))
            case "hold" | "resume":
                getattr(self.controls, name)("Act")
            case "limit":
                self.controls.limit("Act", 1)
            case "later":
                for process in self.processes:
                    process.slots._full_until.clear()
            case _:
                self.ended += getattr(self.processes[int(number or 1) - 1], name)() or ()
        assert sorted(self.everywhere) == sorted(self.pushed), f"lost or doubled by {step}"

    @property
    def everywhere(self) -> list[str]:
        lists = ["queue:default", "offsider:held:Act"]
        lists += (f"offsider:working:{process.owner.identity}:default:default" for process in self.processes)
        with self.client.pipeline() as stored:
            for key in lists:
                stored.lrange(key, 0, -1)
            return [*self.ended, *(decode(raw)["jid"] for found in stored.execute() for raw in found)]

    def finish(self) -> None:
        for step in ("resume", "know 1", "know 2"):
            self.do(step)
        for _ in range(3 + 2 * len(self.pushed)):
            for step in ("look 1", "look 2", "claim 1", "claim 2", "end 1", "end 2"):
                self.do(step)
            if len(self.ended) == len(self.pushed):
                break
        assert sorted(self.ended) == sorted(self.pushed), "all come to an end, once"


@pytest.fixture
def at_once(monkeypatch):
    """Held jobs are due at each look, and a group is full until the step `later`."""
    monkeypatch.setattr(slots, "CHECK_MS", 0)
    monkeypatch.setattr(slots_module, "FULL_SECONDS", 60.0)
    monkeypatch.setattr(slots_module, "LEASE_SECONDS", 0.001)
    job(name="Act")(lambda: None)


OF_EACH = ("know", "know", "claim", "claim", "claim", "look", "end", "compare")
OF_BOTH = ("push", "push", "push", "hold", "hold", "resume", "limit", "later")
STEPS = st.sampled_from([*OF_BOTH, *(f"{name} {number}" for name in OF_EACH for number in (1, 2))])


@pytest.mark.usefixtures("at_once")
@bounds(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=20, max_size=60))
@example(["limit", "know", *["push"] * 3, *["claim"] * 3, "compare", "resume", "know", "claim", "look"])
@example([*["push"] * 3, "claim", "hold", "know", "claim", "resume", "claim"])
def test_no_job_is_lost_or_doubled_by_two_processes_in_any_sequence(config, raw_redis, steps):
    held = Held(config, raw_redis)
    for step in steps:
        held.do(step)
    held.finish()
