"""The way into a run, with a real worker: never over the limit, nothing counted for what is parked, nothing lost."""

from __future__ import annotations

import threading

import pytest

from offsider import Config, Discard, Reschedule, current_job, job
from offsider.client import Client
from offsider.core.errors import MovedAway, RedisRefused, RedisUnavailable, Shutdown
from offsider.core.payload import decode, encode
from offsider.ext.concurrency_limits import ConcurrencyLimits, Limits, gate, store
from offsider.ext.concurrency_limits.gate import Gate
from offsider.ext.concurrency_limits.store import Entered, Names
from offsider.ext.unique import Locks, Unique
from offsider.inspector import RetrySet, ScheduledSet, Stats
from offsider.testing import RunningWorker
from offsider.wiring.context import JobContext
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


def parked(limits):
    return [record.args[0] for record in limits.parked("Act")]


def test_over_the_limit_jobs_are_parked_and_run_as_soon_as_they_may(config, stage, push, limits):
    config.worker.concurrency = 4
    push(*range(8))
    with RunningWorker(config):
        wait_for(lambda: len(parked(limits)) == 7)
        stage.go_on.set()
        wait_for(lambda: len(stage.ended) == 8)
    assert (stage.most, sorted(stage.began)) == (1, list(range(8)))
    assert limits.find("Act").in_use == 0


def test_parked_jobs_run_in_their_order(config, stage, push, limits):
    config.worker.concurrency = 1
    stage.go_on.set()
    limits.pause("Act")
    push(*range(8))
    with RunningWorker(config):
        wait_for(lambda: parked(limits) == list(range(8)))
        assert stage.began == []
        limits.resume("Act")
        wait_for(lambda: len(stage.ended) == 8)
    assert stage.began == list(range(8))


def test_what_is_parked_is_neither_counted_nor_told_of_as_a_run(config, stage, push, limits, caplog):
    caplog.set_level("INFO", "offsider")
    told = []
    config.on("execution_finished", lambda news: told.append(news.outcome))
    config.worker.concurrency = 3
    push(1, 2, 3)
    with RunningWorker(config):
        wait_for(lambda: len(parked(limits)) == 2)
        assert told == []
        stage.go_on.set()
        wait_for(lambda: len(stage.ended) == 3)
    stats = Stats.read(config)
    assert (stats.processed, stats.failed, told) == (3, 0, ["succeeded"] * 3)
    said = [record.getMessage() for record in caplog.records]
    assert [said.count(word) for word in ("moved", "start", "done")] == [2, 3, 3], "a parked job does not start"
    assert len(RetrySet(config)) == 0


@pytest.mark.parametrize("error", [ValueError("broken"), Discard("no"), Reschedule(600), SystemExit(1)])
def test_however_a_run_ends_its_slot_is_freed(config, stage, push, limits, error):
    def raise_it(number):
        if number == 1:
            raise error

    stage.does = raise_it
    stage.go_on.set()
    push(1, 2)
    with RunningWorker(config):
        wait_for(lambda: sorted(stage.ended) == [1, 2])
    assert limits.find("Act").in_use == 0


def test_coroutines_hold_their_slot_to_their_end(config, declared, client, limits):
    seen = []

    @job(name="Async", concurrency_limit=1)
    async def act() -> None:
        seen.append(limits.find("Async").in_use)

    client.push_bulk({"class": "Async", "args": [[], [], []]})
    with RunningWorker(config):
        wait_for(lambda: len(seen) == 3)
    assert seen == [1, 1, 1]
    assert limits.find("Async").in_use == 0


def test_a_limit_for_a_class_that_no_job_here_is_called_is_told_at_the_start(redis_url, declared, caplog):
    config = Config()
    config.redis.url = redis_url
    config.use(ConcurrencyLimits(limits={"Act": 3, "Actt": 3, "urgency=high": 1}))
    Stage()
    with RunningWorker(config):
        pass
    told = [record.getMessage() for record in caplog.records if "ConcurrencyLimits" in record.getMessage()]
    assert len(told) == 1
    assert "no job here is called 'Actt' (did you mean" in told[0]
    config.close()


def test_a_run_outside_of_a_worker_asks_nobody(config, declared, redis):
    ran = []

    @job(name="Inline", concurrency_limit=-1)
    def act() -> None:
        ran.append(current_job().process)

    act.via(Client(config)).run_inline()
    assert ran == [""]


def test_it_is_outside_of_what_other_extensions_add_whatever_the_order(config, stage, push, limits):
    """A lock that ends when its job begins is kept while the job is parked."""
    config.use(Unique())
    assert isinstance(next(iter(config.server_middleware)), Gate)
    limits.pause("Act")
    push(1, unique_for=600, unique_until="start")
    with RunningWorker(config):
        wait_for(lambda: parked(limits) == [1])
        assert len(Locks(config)) == 1
        stage.go_on.set()
        limits.resume("Act")
        wait_for(lambda: stage.ended == [1])
        assert len(Locks(config)) == 0


def test_with_the_basic_fetcher_limits_hold_too(config, stage, push, limits):
    config.worker.fetcher = "basic"
    config.worker.concurrency = 4
    push(*range(6))
    with RunningWorker(config):
        wait_for(lambda: len(parked(limits)) == 5)
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
        wait_for(lambda: sorted(parked(limits)) == [1, 2])
        limits.resume("Act")
        wait_for(lambda: sorted(stage.ended) == [1, 2])


def test_a_job_of_a_queue_that_says_another_one_goes_back_where_it_came_from(config, stage, limits, raw_redis):
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", encode({"class": "Act", "args": [1], "jid": "a" * 24, "queue": "elsewhere"}))
    limits.pause("Act")
    with RunningWorker(config):
        wait_for(lambda: parked(limits) == [1])
    limits.resume("Act")
    assert decode(raw_redis.lindex("queue:default", -1))["queue"] == "default"


# -------------------------------------------------------------------------------- the server fails


class Failing:
    """A gate whose script fails as a test says."""

    def __init__(self, config, monkeypatch, *answers):
        self.asked = []
        self.answers = list(answers)
        self.errors = []
        config.error_handlers.append(lambda error, context: self.errors.append(context["context"]))
        self.gate = next(iter(config.server_middleware))
        monkeypatch.setattr(store, "enter", self.enter)
        monkeypatch.setattr(gate, "OUTAGE_SECONDS", 0.01)

    def enter(self, *args, again):
        self.asked.append(again)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def run(self, *, stopping=False):
        payload = {"class": "Act", "args": [], "jid": "a" * 24, "queue": "default"}
        context = JobContext(payload, "default", encode(payload), is_stopping=lambda: stopping, alone_in="host:1:a")
        return self.gate(context, lambda job: "ran")


def test_without_an_answer_it_asks_again_and_says_whether_it_may_have_been_heard(config, stage, monkeypatch):
    lost, never_sent = RedisUnavailable("lost", ambiguous=True), RedisUnavailable("refused")
    failing = Failing(config, monkeypatch, never_sent, lost, never_sent, Entered.TAKEN)
    assert failing.run() == "ran"
    assert failing.asked == [False, False, True, True]
    assert failing.errors == ["asking for a slot"]


def test_a_worker_that_has_to_go_meanwhile_gives_the_job_back(config, stage, monkeypatch):
    failing = Failing(config, monkeypatch, RedisUnavailable("lost", ambiguous=True))
    with pytest.raises(Shutdown):
        failing.run(stopping=True)


def test_a_server_that_refuses_gets_the_job_back_for_later(config, stage, monkeypatch):
    failing = Failing(config, monkeypatch, RedisRefused("NOPERM no"))
    with pytest.raises(Reschedule, match="cannot be asked") as told:
        failing.run()
    assert told.value.seconds == gate.REFUSED_SECONDS


def test_a_job_that_others_have_is_left_to_them(config, stage, monkeypatch):
    failing = Failing(config, monkeypatch, Entered.LOST)
    with pytest.raises(MovedAway, match="another process"):
        failing.run()


@pytest.fixture
def proxied(redis_url, monkeypatch):
    """The configuration of a worker whose server answers through a proxy."""
    monkeypatch.setattr(gate, "OUTAGE_SECONDS", 0.01)
    with FaultProxy(redis_url) as proxy:
        config = Config()
        config.redis.url = proxy.url
        config.redis.socket_timeout_seconds = config.redis.connect_timeout_seconds = 30
        config.use(ConcurrencyLimits())
        yield config, proxy
        config.close()


@pytest.mark.parametrize("kind", ["reply", "request"])
@pytest.mark.parametrize("limit", [1, -1], ids=["taken", "parked"])
def test_an_answer_that_is_lost_neither_loses_nor_doubles_a_job(proxied, declared, raw_redis, kind, limit):
    config, proxy = proxied
    stage, limits = Stage(limit), Limits(config)
    stage.go_on.set()
    Client(config).push({"class": "Act", "args": [7]})
    raw_redis.script_load(store.ENTER.text)
    getattr(proxy, f"lose_{kind}")(store.ENTER.sha.encode())
    with RunningWorker(config):
        wait_for(lambda: proxy.lost == 1)
        if limit < 0:
            wait_for(lambda: parked(limits) == [7])
            assert stage.ended == []
            limits.set("Act", 1)
        wait_for(lambda: stage.ended == [7])
    assert raw_redis.llen(Names(config.shared_redis().keys).parked("Act")) == 0
    assert len(ScheduledSet(config)) == len(RetrySet(config)) == 0
    assert stage.began == [7]
