"""Effects of a real worker's outcomes: on which outcome, how often, and what is reported."""

from __future__ import annotations

import pytest

from offsider import Config, Discard, Reschedule, Skip, current_job, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.outcome import Failed, NotStarted, Succeeded
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Unique
from offsider.inspector import DeadSet, RetrySet, Stats
from offsider.storage import effects, working
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.effects import Effect, EffectCalls, joined
from offsider.storage.scripts import Script
from offsider.testing import RunningWorker
from tests.faults import FaultProxy
from tests.middleware import returning
from tests.waiting import wait_for

OUTCOME, END, SUCCEEDED, RETRIED, BROKEN = (
    f"{DEFAULT_PREFIX}{name}" for name in ("outcome-effect", "end", "succeeded", "retried", "broken")
)

ADD = Script("add", source="#!lua flags=allow-oom\nreturn redis.call('INCRBY', KEYS[1], ARGV[1])\n")


@pytest.fixture
def config(config):
    config.worker.timeout_seconds = 5
    return config


@pytest.fixture(params=["reliable", "basic"])
def each_fetcher(request, config):
    config.worker.fetcher = request.param


class Stage:
    """The class ``Act`` of a test, each of whose runs has an effect with every outcome and one at its end."""

    def __init__(self, config):
        self.does = lambda: None
        self.written = []
        self.client = Client(config)
        self.admit = lambda job: (yield)
        config.admissions.add(self.add_effects)
        job(name="Act", retry=1)(self.act)

    def add_effects(self, job):
        def done(reply, outcome):
            self.written.append((reply, type(outcome)))

        def at_end(_, goes):
            return (1,) if goes in ("gone", "dead") else None

        job.effects += (Effect(ADD, [OUTCOME], [1], done=done), Effect(ADD, [END], at_end))
        return (yield from self.admit(job))

    def act(self):
        self.does()

    def push(self, **options):
        self.client.push({"class": "Act", "args": [], **options})


@pytest.fixture
def stage(config, declared):
    return Stage(config)


def counters(raw_redis):
    return int(raw_redis.get(OUTCOME) or 0), int(raw_redis.get(END) or 0)


def raises(error):
    def raise_it():
        raise error

    return raise_it


@pytest.mark.parametrize(
    "error, ended",
    [
        (None, 1),
        (Skip(), 1),
        (Discard("no"), 1),
        (LookupError("dies"), 1),
        (ValueError("is retried"), 0),
        (Reschedule(600), 0),
    ],
    ids=["done", "skipped", "discarded", "dead", "retried", "rescheduled"],
)
def test_which_outcome_has_which_effects(config, stage, raw_redis, error, ended):
    if error is not None:
        stage.does = raises(error)
    stage.push(**({"retry": 0} if isinstance(error, LookupError) else {}))
    with RunningWorker(config):
        wait_for(lambda: stage.written)
    assert counters(raw_redis) == (1, ended)
    assert len(DeadSet(config)) == isinstance(error, LookupError)
    assert len(RetrySet(config)) == isinstance(error, ValueError)
    ((reply, outcome),) = stage.written
    assert reply == 1
    assert issubclass(outcome, Failed) == isinstance(error, LookupError | ValueError)


@pytest.mark.usefixtures("each_fetcher")
def test_an_effect_can_depend_on_the_outcome_and_the_destination(config, stage, raw_redis):
    def add(job):
        job.effects += (
            Effect(ADD, [SUCCEEDED], lambda *ended: [1] if ended == (Succeeded(), "gone") else None),
            Effect(ADD, [RETRIED], lambda outcome, goes: [7] if (type(outcome), goes) == (Failed, "retry") else None),
        )
        yield

    config.admissions.add(add)
    stage.push()
    with RunningWorker(config):
        wait_for(lambda: stage.written)
        stage.does = raises(ValueError("is retried"))
        stage.push()
        wait_for(lambda: len(stage.written) == 2)
    assert (raw_redis.get(SUCCEEDED), raw_redis.get(RETRIED)) == (b"1", b"7")


def test_arguments_that_cannot_be_made_are_reported_and_the_other_effects_run(config, stage, raw_redis):
    errors = []
    config.error_handlers.append(lambda error, context: errors.append((str(error), context["context"])))

    def breaks(outcome, goes):
        raise LookupError("broken extension")

    def add(job):
        job.effects += (Effect(ADD, [BROKEN], breaks), Effect(ADD, [BROKEN], lambda *_: [None]))
        yield

    config.admissions.add(add)
    stage.push()
    with RunningWorker(config):
        wait_for(lambda: stage.written)
    where = "running the effect add of an outcome"
    unfit = "effect add: pass str, bytes, int or float, not NoneType"
    assert errors == [("broken extension", where), (unfit, where)]
    assert counters(raw_redis) == (1, 1)


def test_a_run_that_is_void_has_no_effects(config, stage, raw_redis):
    """Its job left the private list during the run: another process owns the resource that the effect frees."""
    lost = []
    config.on("lost_ownership", lost.append)

    def loses():
        entry = current_job().entry
        raw_redis.lrem(f"offsider:working:{entry.owner.identity}:{entry.owner.capsule}:{entry.queue}", 1, entry.raw)
        assert not raw_redis.keys("offsider:working:*")

    stage.does = loses
    stage.push()
    with RunningWorker(config):
        wait_for(lambda: lost)
    assert counters(raw_redis) == (0, 0)
    assert stage.written == []


def test_a_job_that_an_admission_has_moved_has_its_effects_too(config, stage, raw_redis):
    stage.admit = returning(NotStarted("elsewhere", reason="elsewhere", name="moved"))
    stage.push()
    with RunningWorker(config):
        wait_for(lambda: stage.written)
    assert (counters(raw_redis), stage.written) == ((1, 0), [(1, NotStarted)])


def test_effects_of_many_short_jobs_each_run_once(config, stage, raw_redis):
    config.worker.concurrency = 4
    stage.client.push_bulk({"class": "Act", "args": [[]] * 300})
    with RunningWorker(config):
        wait_for(lambda: len(stage.written) == 300)
    assert counters(raw_redis) == (300, 300)
    assert sorted(reply for reply, _ in stage.written) == [*range(1, 301)]
    assert Stats.read(config).processed == 300


def test_a_server_that_refuses_an_effect_is_reported_and_the_job_is_done(config, stage, raw_redis):
    errors = []
    config.error_handlers.append(lambda error, context: errors.append((str(error), context["context"])))
    raw_redis.lpush(OUTCOME, "no number")
    stage.push()
    with RunningWorker(config):
        wait_for(lambda: stage.written)
    assert stage.written == [(None, Succeeded)]
    ((error, context),) = errors
    assert "WRONGTYPE" in error
    assert context == "running the effect add of an outcome"
    assert Stats.read(config).processed == 1


def test_an_error_of_an_extension_after_the_write_is_reported(config, stage, raw_redis):
    errors = []
    config.error_handlers.append(lambda error, context: errors.append(str(error)))

    def breaks(reply, outcome):
        raise LookupError("broken extension")

    def add(job):
        job.effects += (Effect(ADD, [OUTCOME], [1], done=breaks),)
        yield

    config.admissions.add(add)
    stage.push()
    with RunningWorker(config):
        wait_for(lambda: errors)
    assert errors == ["broken extension"]
    assert raw_redis.get(OUTCOME) == b"2"


@pytest.mark.parametrize("error", [None, ValueError("is retried")], ids=["done", "retried"])
@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_effects_with_a_lost_reply_run_once(redis_url, declared, raw_redis, error, fault):
    script = working.SETTLE if error else working.ACK_AND_CLAIM
    composed = joined(script, [], [], EffectCalls([[Effect(ADD, [])]]))[0]
    raw_redis.script_load(composed.text)
    with FaultProxy(redis_url) as proxy:
        config = Config()
        config.redis.url = proxy.url
        stage = Stage(config)
        if error:
            stage.does = raises(error)
        stage.push()
        getattr(proxy, fault)(b"outcome-effect")
        with RunningWorker(config):
            wait_for(lambda: stage.written)
        assert proxy.lost == 1
        Installation.of(config).close()
    assert counters(raw_redis) == (1, 0 if error else 1)
    ((reply, _),) = stage.written
    assert reply == (None if fault == "lose_reply" else 1)


def test_a_worker_composes_nothing_for_jobs_without_effects(config, declared, monkeypatch):
    """Also with the extensions that have effects for other jobs."""
    ran = []
    config.use(Unique())
    config.use(ConcurrencyLimits())
    job(name="Plain")(lambda: ran.append(1))
    composed = []
    monkeypatch.setattr(working, "joined", lambda *call: composed.append(call))
    monkeypatch.setattr(effects, "joined", lambda *call: composed.append(call))
    Client(config).push_bulk({"class": "Plain", "args": [[]] * 50})
    with RunningWorker(config):
        wait_for(lambda: Stats.read(config).processed == 50)
    assert (len(ran), composed) == (50, [])
