"""A job that this worker cannot run has not failed: it waits for a worker that can, and somebody is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from offsider import JobContext, NoCapableWorker, job
from offsider.core.errors import RedisUnavailable
from offsider.core.payload import decode, encode
from offsider.jobs import registry
from offsider.storage import parked, processes, registered
from offsider.storage.parked import Wanted
from offsider.worker import ability as module
from offsider.worker.ability import LONG_SECONDS, SHORT_SECONDS, Abilities, no_longer_parked
from offsider.worker.outcome import Failed, Parked

DAY = 86_400
NOW_MS = 1_795_216_780_000


@pytest.fixture(autouse=True)
def declared(no_jobs_left) -> None:
    @job(name="Resize")
    def resize(path: str, width: int = 100) -> None: ...


@pytest.fixture
def stopped(worker_config) -> None:
    class Stopped(type(worker_config.clock)):
        def now(self) -> float:
            return NOW_MS / 1000

    worker_config.clock = Stopped()


@pytest.fixture
def abilities(worker_config, stopped) -> Iterator[Abilities]:
    redis = worker_config.make_redis(2)
    yield Abilities(worker_config, redis)
    redis.close()
    worker_config.close()


@pytest.fixture
def fleet(worker_config) -> Iterator[Any]:
    """fleet("host:1:a", {"Resize": "…"}) registers a process; without names it is one of Ruby."""
    redis = worker_config.make_redis(1)

    def add(identity: str, known: dict[str, str] | None, queues: tuple[str, ...] = ("media",), quiet: str = "false"):
        info = json.dumps({"queues": list(queues), "identity": identity})
        processes.heartbeat(redis, identity, {"info": info, "quiet": quiet}, {}, wire_version=8)
        if known is not None:
            registered.publish(redis, identity, known)

    yield add
    redis.close()


def context(name: str = "Resize", args: tuple[object, ...] = (1, 2, 3), **fields: object) -> JobContext:
    payload = {"class": name, "args": list(args), "jid": "a" * 24, "queue": "media", **fields}
    return JobContext(decode(encode(payload)), "media", encode(payload))


def judge(abilities: Abilities, job: JobContext) -> Any:
    return abilities.judge(job, registry.peek(job.name))


OURS = {"Resize": "ours"}


# ------------------------------------------------------------------------------- what is judged


def test_arguments_that_fit_run_whoever_they_were_made_for(abilities):
    assert judge(abilities, context(args=("a.png",), signature="0badcafe")) is None


def test_a_job_that_does_not_say_what_it_was_made_for_runs_and_fails_as_ever(abilities):
    assert judge(abilities, context()) is None
    assert judge(abilities, context(signature=7)) is None


def test_arguments_made_for_these_parameters_run_and_fail_as_ever(abilities):
    digest = registry.find("Resize").signature.digest
    assert judge(abilities, context(signature=digest)) is None


def test_nothing_is_judged_when_nothing_shall_be_parked(abilities, worker_config):
    worker_config.worker.park_days = 0
    assert judge(abilities, context("Unknown")) is None


@pytest.mark.parametrize("quiet", ["false", "true"])
def test_nothing_is_judged_while_a_process_serves_the_queue_that_does_not_tell(abilities, fleet, quiet):
    fleet("ruby:1:a", None, quiet=quiet)
    assert judge(abilities, context("Unknown")) is None


def test_a_process_of_ruby_that_serves_other_queues_does_not_count(abilities, fleet):
    fleet("ruby:1:a", None, queues=("mail",))
    assert judge(abilities, context("Unknown")) is not None


# ----------------------------------------------------------------------------- somebody else can


@pytest.mark.parametrize(
    "fields, known",
    [
        ({"name": "New"}, {"New": "whatever"}),
        ({"name": "New", "signature": "5ca1ab1e"}, {"New": "5ca1ab1e"}),
        ({"signature": "5ca1ab1e"}, {"Resize": "5ca1ab1e"}),
    ],
)
@pytest.mark.parametrize("queues", [("mail", "media"), ("*",)])
def test_a_job_that_another_can_run_comes_back_soon(abilities, fleet, fields, known, queues):
    fleet("ours:1:a", OURS)
    fleet("new:1:a", known, queues=queues)
    outcome = judge(abilities, context(**fields))
    assert outcome is not None
    assert not outcome.nobody
    assert 0.4 <= outcome.delay_seconds <= 0.6
    assert outcome.reason.endswith("; another worker can run it")
    stored = decode(outcome.payload)
    assert (stored["parked_count"], "parked_at" in stored, stored["queue"]) == (1, False, "media")


def tries(abilities, clock, count, *, each_seconds, **fields):
    """The pauses before the next try of one job, which is here again each so many seconds."""
    raw, delays = context("New", **fields).raw, []
    for _ in range(count):
        outcome = judge(abilities, JobContext(decode(raw), "media", raw))
        assert outcome is not None
        raw = outcome.payload
        delays.append(outcome.delay_seconds)
        clock.advance(each_seconds)
    assert decode(raw)["parked_count"] == count
    return delays


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_one_that_goes_round_waits_no_longer_at_its_hundredth_try(abilities, fleet, clock):
    """Behind a hundred old processes the one that can run it is a hundred tries away."""
    fleet("new:1:a", {"New": "1"})
    for number in range(100):
        fleet(f"old:{number}:a", {"Old": "1"})
    assert max(tries(abilities, clock, 150, each_seconds=100.0)) <= 0.6


@pytest.mark.parametrize("many", [(1, 100, 1.5), (10, 100, 10.4), (10, 2_000, 30.0)])
def test_where_many_go_round_they_do_so_more_slowly(abilities, fleet, clock, many):
    processes, at_once, expected = many
    for number in range(processes):
        fleet(f"new:{number}:a", {"New": "1"})
    last = tries(abilities, clock, at_once, each_seconds=0.9 / at_once)[-1]
    assert 0.8 * expected <= last <= 1.2 * expected
    clock.advance(2.0)
    assert tries(abilities, clock, 1, each_seconds=0.0)[0] <= 0.6


def test_one_that_another_may_be_able_to_run_waits_longer_each_time(abilities, fleet, monkeypatch):
    monkeypatch.setattr(module, "DOUBTFUL_TRIES", 15)
    fleet("third:1:a", {"New": "third"})
    delays = []
    raw = context("New", signature="5ca1ab1e").raw
    for _ in range(15):
        outcome = judge(abilities, JobContext(decode(raw), "media", raw))
        assert outcome is not None
        assert outcome.reason.endswith("; another worker may be able to run it")
        raw = outcome.payload
        delays.append(outcome.delay_seconds)
    expected = [*SHORT_SECONDS, *[SHORT_SECONDS[-1]] * 4]
    assert all(0.8 * due <= delay <= 1.2 * due for delay, due in zip(delays, expected, strict=True))


def test_one_that_never_gets_to_a_worker_that_can_is_told_now_and_then(abilities, fleet, caplog):
    fleet("new:1:a", {"New": "1"})
    for count in (1, 499, 500, 501, 1_000):
        judge(abilities, context("New", parked_count=count))
    told = [record.getMessage() for record in caplog.records]
    assert [message.partition(" was sent on ")[2].partition(",")[0] for message in told] == ["500 times", "1000 times"]


def test_who_waited_long_begins_anew_when_somebody_comes(abilities, fleet):
    fleet("new:1:a", {"New": "1"})
    outcome = judge(abilities, context("New", parked_at=NOW_MS, parked_count=9))
    assert outcome is not None
    assert outcome.delay_seconds <= 1.2
    assert decode(outcome.payload)["parked_count"] == 1


def test_a_worker_with_parameters_of_a_third_kind_gets_a_few_tries(abilities, fleet):
    fleet("third:1:a", {"Resize": "third"})
    first = judge(abilities, context(signature="5ca1ab1e"))
    last = judge(abilities, context(signature="5ca1ab1e", parked_count=8))
    parked = judge(abilities, context(signature="5ca1ab1e", parked_count=1, parked_at=NOW_MS))
    assert [outcome.nobody for outcome in (first, last, parked) if outcome] == [False, True, True]


def test_while_redis_cannot_be_asked_the_job_waits_a_moment(abilities, monkeypatch):
    def away() -> None:
        raise RedisUnavailable("away")

    monkeypatch.setattr(abilities, "_look", away)
    outcome = judge(abilities, context("Unknown"))
    assert outcome is not None
    assert (outcome.nobody, "cannot be asked: away" in outcome.reason) == (False, True)


# ------------------------------------------------------------------------------------ nobody can


def test_a_job_that_nobody_can_run_is_parked_for_longer_each_time(abilities, fleet):
    digest = registry.find("Resize").signature.digest
    fleet("ours:1:a", {"Resize": digest})
    fleet("quiet:1:a", {"Resize": "5ca1ab1e"}, quiet="true")
    fleet("elsewhere:1:a", {"Resize": "5ca1ab1e"}, queues=("mail",))
    delays = []
    raw = context(signature="5ca1ab1e", app_version="2.15").raw
    for _ in range(10):
        outcome = judge(abilities, JobContext(decode(raw), "media", raw))
        assert outcome is not None
        assert outcome.nobody
        raw = outcome.payload
        delays.append(outcome.delay_seconds)
    assert "Resize(path: str, width: int = 100) -> None" in outcome.reason.replace("'", "")
    assert "pushed by version 2.15; no live worker of queue media can run it" in outcome.reason
    stored = decode(raw)
    assert (stored["parked_count"], stored["parked_at"]) == (10, NOW_MS)
    expected = [*LONG_SECONDS, *[LONG_SECONDS[-1]] * 2]
    assert all(0.8 * due <= delay <= 1.2 * due for delay, due in zip(delays, expected, strict=True))
    assert max(delays) <= parked.LONGEST_SECONDS


def test_nothing_else_of_the_payload_changes_and_no_retry_is_used(abilities):
    job = context("Unknown", retry_count=3, error_class="X", custom={"x": 1}, app_version="2.15")
    outcome = judge(abilities, job)
    assert outcome is not None
    assert decode(outcome.payload) == {**job.payload, "parked_at": NOW_MS, "parked_count": 1}
    assert no_longer_parked(outcome.payload) == job.raw
    assert no_longer_parked(job.raw) is job.raw


def test_a_job_goes_back_to_the_queue_that_it_came_from(abilities):
    payload = {"class": "Unknown", "args": [], "queue": "other"}
    outcome = judge(abilities, JobContext(decode(encode(payload)), "media", encode(payload)))
    assert outcome is not None
    assert decode(outcome.payload)["queue"] == "media"


def test_after_so_many_days_it_is_given_up(abilities, worker_config):
    worker_config.worker.park_days = 7
    assert isinstance(judge(abilities, context("Unknown", parked_at=NOW_MS - 7 * DAY * 1000)), Parked)
    given_up = judge(abilities, context("Unknown", parked_at=NOW_MS - 7 * DAY * 1000 - 1))
    assert isinstance(given_up, Failed)
    assert isinstance(given_up.error, NoCapableWorker)
    assert str(given_up.error).startswith("Unknown is not declared in this worker")
    assert str(given_up.error).endswith("and none could for 7 days")


@pytest.mark.parametrize("count", ["3", True, -1, None])
def test_a_count_that_is_none_is_none(abilities, count):
    outcome = judge(abilities, context("Unknown", parked_at=NOW_MS, parked_count=count))
    assert outcome is not None
    assert decode(outcome.payload)["parked_count"] == 1


def test_the_others_are_asked_once_a_second(abilities, fleet, monkeypatch):
    assert judge(abilities, context("New")).nobody
    fleet("new:1:a", {"New": "1"})
    assert judge(abilities, context("New")).nobody
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    assert not judge(abilities, context("New")).nobody


# ------------------------------------------------------------------------------------- who is told


def test_what_was_parked_is_told_to_listeners_to_the_log_and_in_redis(abilities, worker_config, raw_redis, caplog):
    heard = []
    worker_config.on("job_parked", heard.append)
    for number in range(3):
        job = context("Unknown", (number,), parked_at=NOW_MS, parked_count=number)
        abilities.tell(job, judge(abilities, job))
    assert [(news.job.jid, news.parked_count) for news in heard] == [("a" * 24, 1), ("a" * 24, 2), ("a" * 24, 3)]
    assert "no live worker" in heard[0].reason
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "parked Unknown JID-aaaa" in errors[0].getMessage()
    wanted = Wanted("Unknown", "")
    assert parked.kinds(abilities._redis)[wanted].queue == "media"
    assert parked.counts(abilities._redis) == {"Unknown": 1}
    abilities.flush()
    assert parked.counts(abilities._redis) == {"Unknown": 3}
    abilities.flush()
    assert parked.counts(abilities._redis) == {"Unknown": 3}


def test_of_a_job_that_another_can_run_nothing_is_told(abilities, fleet, raw_redis, caplog):
    fleet("new:1:a", {"New": "1"})
    job = context("New")
    abilities.tell(job, judge(abilities, job))
    abilities.flush()
    assert parked.kinds(abilities._redis) == {}
    assert [record for record in caplog.records if record.levelno == logging.ERROR] == []


def test_what_the_server_does_not_take_is_noted_the_next_time(abilities, monkeypatch):
    def refuse(*_: object) -> None:
        raise RedisUnavailable("away")

    job = context("Unknown")
    with monkeypatch.context() as patch:
        patch.setattr(module.parked, "note", refuse)
        abilities.tell(job, judge(abilities, job))
    abilities.flush()
    assert parked.counts(abilities._redis) == {"Unknown": 1}


def test_of_endless_kinds_the_memory_is_bounded(abilities, monkeypatch):
    monkeypatch.setattr(module, "_MOST_KINDS", 2)
    for number in range(5):
        job = context(f"Unknown{number}")
        abilities.tell(job, judge(abilities, job))
    assert len(abilities._told) <= 2
