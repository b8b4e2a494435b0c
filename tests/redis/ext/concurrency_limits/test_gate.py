"""The gate before a run, with a real worker: never over the limit, held jobs are not counted, none is lost."""

from __future__ import annotations

import threading

import pytest

from offsider import Config, Discard, current_job, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused, RedisUnavailable, Reschedule, Shutdown
from offsider.core.outcome import NotStarted, Rescheduled, Succeeded
from offsider.core.payload import decode, encode
from offsider.ext.concurrency_limits import ConcurrencyLimits, Limits, gate, store
from offsider.ext.concurrency_limits.gate import Gate
from offsider.ext.concurrency_limits.store import Entered, Names
from offsider.ext.unique import Locks, Unique
from offsider.inspector import RetrySet, ScheduledSet, Stats
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import MiddlewareChain
from offsider.testing import RunningWorker
from tests.faults import FaultProxy
from tests.waiting import wait_for


class Stage:
    """The class ``Act`` of a test: how many run at one time, and in which order they began."""

    def __init__(self, limit=1):
        self.lock = threading.Lock()
        self.running = self.most = 0
        self.began = []
        self.ended = []
        self.go_on = threading.Event()
        self.does = lambda number: None
        job(name="Act", retry=0, concurrency_limit=limit)(self.act)

    def act(self, number: int = 0) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.began.append(number)
        try:
            self.go_on.wait(20)
            self.does(number)
        finally:
            with self.lock:
                self.running -= 1
                self.ended.append(number)


@pytest.fixture
def stage(declared):
    return Stage()


@pytest.fixture
def push(client):
    def push(*numbers, **options):
        return [client.push({"class": "Act", "args": [number], **options}) for number in numbers]

    return push


def held(limits):
    return [record.args[0] for record in limits.held("Act")]


def test_jobs_over_the_limit_are_held_and_run_when_slots_are_free(config, stage, push, limits):
    config.worker.concurrency = 4
    push(*range(8))
    with RunningWorker(config):
        wait_for(lambda: len(held(limits)) == 7)
        stage.go_on.set()
        wait_for(lambda: len(stage.ended) == 8)
    assert (stage.most, sorted(stage.began)) == (1, list(range(8)))
    assert limits.find("Act").in_use == 0


def test_held_jobs_run_in_their_order(config, stage, push, limits):
    config.worker.concurrency = 1
    stage.go_on.set()
    limits.pause("Act")
    push(*range(8))
    with RunningWorker(config):
        wait_for(lambda: held(limits) == list(range(8)))
        assert stage.began == []
        limits.resume("Act")
        wait_for(lambda: len(stage.ended) == 8)
    assert stage.began == list(range(8))


def test_held_jobs_are_not_counted_as_runs_and_emit_no_run_event(config, stage, push, limits, caplog):
    caplog.set_level("INFO", "offsider")
    reported = []
    config.on("execution_finished", lambda news: reported.append(news.outcome))
    config.worker.concurrency = 3
    push(1, 2, 3)
    with RunningWorker(config):
        wait_for(lambda: len(held(limits)) == 2)
        assert reported == []
        stage.go_on.set()
        wait_for(lambda: len(stage.ended) == 3)
    stats = Stats.read(config)
    assert (stats.processed, stats.failed, reported) == (3, 0, ["succeeded"] * 3)
    output = [record.getMessage() for record in caplog.records]
    assert [output.count(word) for word in ("moved", "start", "done")] == [2, 3, 3], "a held job does not start"
    assert len(RetrySet(config)) == 0


@pytest.mark.parametrize("error", [ValueError("broken"), Discard("no"), Reschedule(600), SystemExit(1)])
def test_every_outcome_frees_the_slot(config, stage, push, limits, error):
    def raise_it(number):
        if number == 1:
            raise error

    stage.does = raise_it
    stage.go_on.set()
    push(1, 2)
    with RunningWorker(config):
        wait_for(lambda: sorted(stage.ended) == [1, 2])
    assert limits.find("Act").in_use == 0


def test_coroutines_keep_their_slot_until_they_end(config, declared, client, limits):
    seen = []

    @job(name="Async", concurrency_limit=1)
    async def act() -> None:
        seen.append(limits.find("Async").in_use)

    client.push_bulk({"class": "Async", "args": [[], [], []]})
    with RunningWorker(config):
        wait_for(lambda: len(seen) == 3)
    assert seen == [1, 1, 1]
    assert limits.find("Async").in_use == 0


def test_a_limit_for_an_unknown_class_logs_a_warning_at_startup(redis_url, declared, caplog):
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


def test_a_run_outside_a_worker_needs_no_slot(config, declared, redis):
    ran = []

    @job(name="Inline", concurrency_limit=-1)
    def act() -> None:
        ran.append(current_job().process)

    act.via(Client(config)).run_inline()
    assert ran == [""]


def test_the_gate_runs_before_middleware_for_any_install_order(config, stage, push, limits):
    """A lock that ends when its job begins is kept while the job is held."""
    config.use(Unique())
    assert [type(admission) for admission in config.admissions] == [Gate]
    limits.pause("Act")
    push(1, unique_for=600, unique_until="start")
    with RunningWorker(config):
        wait_for(lambda: held(limits) == [1])
        assert len(Locks(config)) == 1
        stage.go_on.set()
        limits.resume("Act")
        wait_for(lambda: stage.ended == [1])
        assert len(Locks(config)) == 0


def test_limits_apply_with_the_basic_fetcher_too(config, stage, push, limits):
    config.worker.fetcher = "basic"
    config.worker.concurrency = 4
    push(*range(6))
    with RunningWorker(config):
        wait_for(lambda: len(held(limits)) == 5)
        stage.go_on.set()
        wait_for(lambda: len(stage.ended) == 6)
    assert stage.most == 1
    assert Stats.read(config).processed == 6


def test_retried_and_scheduled_jobs_need_a_slot_as_well(config, stage, push, limits, client):
    stage.go_on.set()
    limits.pause("Act")
    client.push({"class": "Act", "args": [1], "at": 1_600_000_000})
    client.push({"class": "Act", "args": [2], "retry_count": 0})
    with RunningWorker(config):
        wait_for(lambda: sorted(held(limits)) == [1, 2])
        limits.resume("Act")
        wait_for(lambda: sorted(stage.ended) == [1, 2])


def test_a_job_whose_payload_names_another_queue_returns_to_its_own_queue(config, stage, limits, raw_redis):
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", encode({"class": "Act", "args": [1], "jid": "a" * 24, "queue": "elsewhere"}))
    limits.pause("Act")
    with RunningWorker(config):
        wait_for(lambda: held(limits) == [1])
    limits.resume("Act")
    assert decode(raw_redis.lindex("queue:default", -1))["queue"] == "default"


# -------------------------------------------------------------------------------- the server fails


class Failing:
    """A gate whose script fails as the test decides."""

    def __init__(self, config, monkeypatch, *answers):
        self.asked = []
        self.answers = list(answers)
        self.errors = []
        config.error_handlers.append(lambda error, context: self.errors.append(context["context"]))
        self.gate = next(iter(config.admissions))
        monkeypatch.setattr(store, "enter", self.enter)
        monkeypatch.setattr(gate, "OUTAGE_SECONDS", 0.01)

    def enter(self, *args, rate, again):
        self.asked.append(again)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def run(self, *, stopping=False):
        payload = {"class": "Act", "args": [], "jid": "a" * 24, "queue": "default"}
        context = JobContext(payload, "default", encode(payload), is_stopping=lambda: stopping, alone_in="host:1:a")
        return MiddlewareChain([self.gate]).run(context, lambda job: Succeeded())


def test_after_a_lost_reply_the_gate_repeats_the_request_and_marks_it_as_repeated(config, stage, monkeypatch):
    lost, never_sent = RedisUnavailable("lost", ambiguous=True), RedisUnavailable("refused")
    failing = Failing(config, monkeypatch, never_sent, lost, never_sent, Entered.TAKEN)
    assert failing.run() == Succeeded()
    assert failing.asked == [False, False, True, True]
    assert failing.errors == ["acquiring a slot"]


def test_a_worker_that_stops_during_an_outage_requeues_the_job(config, stage, monkeypatch):
    failing = Failing(config, monkeypatch, RedisUnavailable("lost", ambiguous=True))
    with pytest.raises(Shutdown):
        failing.run(stopping=True)


def test_a_refused_script_reschedules_the_job(config, stage, monkeypatch):
    failing = Failing(config, monkeypatch, RedisRefused("NOPERM no"))
    assert failing.run() == Rescheduled(gate.REFUSED_SECONDS, "cannot check its concurrency limit")


def test_a_job_claimed_by_another_process_is_left_to_it(config, stage, monkeypatch):
    failing = Failing(config, monkeypatch, Entered.LOST)
    assert failing.run() == NotStarted("elsewhere", reason="another process", name="moved")


@pytest.fixture
def proxied(redis_url, monkeypatch):
    """The configuration of a worker whose server is behind a proxy."""
    monkeypatch.setattr(gate, "OUTAGE_SECONDS", 0.01)
    with FaultProxy(redis_url) as proxy:
        config = Config()
        config.redis.url = proxy.url
        config.redis.socket_timeout_seconds = 30
        config.use(ConcurrencyLimits())
        yield config, proxy
        Installation.of(config).close()


@pytest.mark.parametrize("kind", ["reply", "request"])
@pytest.mark.parametrize("limit", [1, -1], ids=["taken", "held"])
def test_a_lost_reply_neither_loses_nor_repeats_a_job(proxied, declared, raw_redis, kind, limit):
    config, proxy = proxied
    stage, limits = Stage(limit), Limits(config)
    stage.go_on.set()
    Client(config).push({"class": "Act", "args": [7]})
    raw_redis.script_load(store.ENTER.text)
    getattr(proxy, f"lose_{kind}")(store.ENTER.sha.encode())
    with RunningWorker(config):
        wait_for(lambda: proxy.lost == 1)
        if limit < 0:
            wait_for(lambda: held(limits) == [7])
            assert stage.ended == []
            limits.set("Act", 1)
        wait_for(lambda: stage.ended == [7])
    assert raw_redis.llen(Names(Installation.of(config).redis.keys).held("Act")) == 0
    assert len(ScheduledSet(config)) == len(RetrySet(config)) == 0
    assert stage.began == [7]
