"""A job that this worker cannot run has not failed: other workers get it, or it waits for one that can."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from offsider import JobContext, NoCapableWorker, job
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import Failed, NotStarted
from offsider.core.payload import decode, encode, not_stranded
from offsider.jobs import registry
from offsider.storage import processes, stranded
from offsider.storage.activity import Activity
from offsider.worker.run import stranded as module
from offsider.worker.run.stranded import HANDED_OVER, STRANDED, StrandedCheck

DAY = 86_400
NOW_MS = 1_795_216_780_000


@pytest.fixture(autouse=True)
def declared(declared) -> None:
    @job(name="Resize")
    def resize(path: str, width: int = 100) -> None: ...


class Clock:
    """The time of day, and the monotonic clock, in the hands of the test."""

    def __init__(self) -> None:
        self.seconds = NOW_MS / 1000

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(worker_config, monkeypatch) -> Clock:
    clock = Clock()
    worker_config.clock = clock
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture
def jobs(worker_config, clock) -> Iterator[StrandedCheck]:
    redis = Installation.of(worker_config).make_redis(2)
    yield StrandedCheck(worker_config, redis)
    redis.close()
    Installation.of(worker_config).close()


@pytest.fixture
def fleet(worker_config) -> Iterator[Any]:
    """fleet("host:1:a", {"Resize": "…"}) registers a process; without names it is one of Ruby."""
    redis = Installation.of(worker_config).make_redis(1)

    def add(identity: str, known: dict[str, str] | None, queues: tuple[str, ...] = ("media",), quiet: str = "false"):
        info = json.dumps({"queues": list(queues), "identity": identity})
        jobs = {} if known is None else {processes.JOBS: json.dumps(known)}
        processes.write(redis, identity, {"info": info, "quiet": quiet} | jobs, {}, Activity(), wire_version=8)

    yield add
    redis.close()


def context(name: str = "Resize", args: tuple[object, ...] = (1, 2, 3), **fields: object) -> JobContext:
    raw = encode({"class": name, "args": list(args), "jid": "a" * 24, "queue": "media", **fields})
    return stored(raw)


def stored(raw: bytes, queue: str = "media") -> JobContext:
    return JobContext(decode(raw), queue, raw)


def judge(jobs: StrandedCheck, job: JobContext) -> Any:
    return jobs.judge(job, registry.peek(job.name))


# ------------------------------------------------------------------------------------ checked jobs


def test_a_job_runs_if_its_arguments_fit_or_its_signature_is_ours_or_unknown(jobs):
    ours = registry.find("Resize").signature.digest
    fitting = context(args=("a.png",), signature="0badcafe")
    judged = [judge(jobs, each) for each in (fitting, context(), context(signature=ours), context(signature=7))]
    assert judged == [None] * 4


def test_without_stranding_no_job_is_checked(jobs, worker_config):
    worker_config.worker.stranded_days = 0
    assert judge(jobs, context("Unknown")) is None


# ----------------------------------------------------------------------------- another worker can


@pytest.mark.parametrize(
    "fields, known",
    [
        ({"name": "New"}, {"New": "whatever"}),
        ({"name": "New", "signature": "5ca1ab1e"}, {"New": "5ca1ab1e"}),
        ({"signature": "5ca1ab1e"}, {"Resize": "5ca1ab1e"}),
    ],
)
@pytest.mark.parametrize("queues", [("mail", "media"), ("*",)])
def test_a_job_that_another_worker_can_run_moves_to_the_tail_unchanged(jobs, fleet, fields, known, queues):
    fleet("ours:1:a", {"Resize": "ours"})
    fleet("new:1:a", known, queues=queues)
    job = context(**fields)
    outcome = judge(jobs, job)
    assert outcome == NotStarted("queue", 0.0, outcome.reason, "handed over")
    assert outcome.reason.endswith("; another worker can run it")


def test_a_process_moves_one_job_per_second_to_the_tail_and_others_wait_in_the_schedule(jobs, fleet, clock):
    fleet("new:1:a", {"New": "1"})
    delays = [judge(jobs, context("New", jid=f"{number:024x}")).delay_seconds for number in range(50)]
    assert delays[0] == 0.0
    assert all(0.8 <= delay <= 1.2 for delay in delays[1:])
    clock.advance(0.99)
    assert judge(jobs, context("New")).delay_seconds > 0
    clock.advance(0.01)
    assert judge(jobs, context("New")).delay_seconds == 0.0


@pytest.mark.parametrize("known, longest_seconds", [({"New": "1"}, 5), ({}, 20)])
def test_many_stranded_jobs_return_at_a_hundred_per_second(jobs, fleet, clock, known, longest_seconds):
    fleet("other:1:a", known)
    delays = [judge(jobs, context("New", jid=f"{number:024x}")).delay_seconds for number in range(2_000)]
    assert 0.8 * longest_seconds <= delays[-1] <= 1.2 * longest_seconds
    clock.advance(20.0)
    judge(jobs, context("New"))
    assert judge(jobs, context("New", jid="b")).delay_seconds <= 1.2


def test_a_job_that_another_worker_can_run_is_handed_over_every_few_seconds(jobs, fleet, raw_redis, caplog):
    """Behind a hundred old processes the one that can run it may be hundreds of tries away."""
    fleet("new:1:a", {"New": "1"})
    first = judge(jobs, context("New"))
    raw_redis.set(f"offsider:handed-on:{'a' * 24}:0", 498, ex=3600 - 600)
    outcomes = [judge(jobs, context("New")) for _ in range(4)]
    assert all(4.0 <= outcome.delay_seconds <= 6.0 and outcome.name == HANDED_OVER for outcome in outcomes)
    assert [outcome.is_logged for outcome in (first, *outcomes)] == [True, False, False, False, False]
    reported = [record.getMessage() for record in caplog.records if "was handed over 500 times" in record.getMessage()]
    assert len(reported) == 1


def test_a_job_is_requeued_to_the_queue_it_was_in_not_the_one_in_its_payload(jobs, fleet):
    fleet("new:1:a", {"New": "1"})
    judge(jobs, context("New"))
    outcome = judge(jobs, stored(encode({"class": "New", "args": [], "queue": "other"})))
    assert outcome.delay_seconds > 0
    assert decode(outcome.payload)["queue"] == "media"


# ------------------------------------------------------------------- another worker may be able to


@pytest.mark.parametrize("known", [None, {"Resize": "third"}])
def test_a_worker_that_might_be_busy_gets_five_hand_overs_and_a_minute_before_the_alarm(
    jobs, fleet, clock, known, caplog
):
    def seen_again(waited_seconds: int, after_seconds: float = 1.0) -> NotStarted:
        jobs._redis.call("EXPIRE", jobs._redis.keys.handed_on("a" * 24, "0"), 3600 - waited_seconds)
        clock.advance(after_seconds)
        job = context(signature="5ca1ab1e", retry=False)
        outcome = judge(jobs, job)
        jobs.report(job, outcome)
        return outcome

    fleet("other:1:a", known)
    raw = context(signature="5ca1ab1e", retry=False).raw
    handed_over = [seen_again(seconds) for seconds in range(5)]
    assert [(outcome.place, outcome.payload) for outcome in handed_over] == [("queue", None)] * 5
    assert [outcome.is_logged for outcome in handed_over] == [True, False, False, False, False]
    for seconds in (6, 20, 59):
        assert seen_again(seconds).delay_seconds == 0.0  # an idle process that blocks behind this one gets a turn
        waits = seen_again(seconds, after_seconds=0.0)
        assert (waits.payload, waits.name, waits.is_logged) == (raw, HANDED_OVER, False)
        assert waits.reason.endswith("; another worker might run it")
        assert 0.8 * seconds <= waits.delay_seconds <= 1.2 * (seconds + 1)
    assert (stranded.counts(jobs._redis), caplog.text) == ({}, "")
    given_up = seen_again(61)
    assert given_up.name == STRANDED
    assert given_up.reason.endswith("; no other worker ran it in time")
    assert stranded.counts(jobs._redis) == {"Resize": 1}
    assert "stranded Resize" in caplog.text


@pytest.mark.parametrize("process", [{"queues": ("mail",)}, {"quiet": "true"}])
def test_a_ruby_process_that_does_not_serve_this_queue_does_not_count(jobs, fleet, process):
    fleet("ruby:1:a", None, **process)
    assert judge(jobs, context("Unknown")).name == STRANDED


def test_during_an_outage_the_job_waits_briefly(jobs, monkeypatch):
    def away(_: str) -> None:
        raise RedisUnavailable("away")

    monkeypatch.setattr(jobs, "_others_of", away)
    outcome = judge(jobs, context("Unknown"))
    assert (outcome.delay_seconds, outcome.name) == (1.0, HANDED_OVER)
    assert outcome.payload == context("Unknown").raw
    assert outcome.reason.endswith("the other workers are unknown: away")


def test_the_others_are_asked_once_a_second(jobs, fleet, clock):
    assert judge(jobs, context("New")).name == STRANDED
    fleet("new:1:a", {"New": "1"})
    assert judge(jobs, context("New")).name == STRANDED
    clock.advance(1.0)
    assert judge(jobs, context("New")).name == HANDED_OVER


# -------------------------------------------------------------------------------- no worker can


def test_a_stranded_job_waits_for_as_long_as_it_has_waited_up_to_five_minutes(jobs, fleet, clock):
    digest = registry.find("Resize").signature.digest
    fleet("ours:1:a", {"Resize": digest})
    fleet("quiet:1:a", {"Resize": "5ca1ab1e"}, quiet="true")
    fleet("elsewhere:1:a", {"Resize": "5ca1ab1e"}, queues=("mail",))
    raw, delays = context(signature="5ca1ab1e", app_version="2.15").raw, []
    for waits in [0, 1, 2, 4, 8, 100, 300, 5_000]:
        clock.seconds = NOW_MS / 1000 + waits
        outcome = judge(jobs, stored(raw))
        raw = outcome.payload
        delays.append(outcome.delay_seconds)
    assert "Resize(path: str, width: int = 100) -> None" in outcome.reason.replace("'", "")
    assert "pushed by version 2.15; no live worker of queue media can run it" in outcome.reason
    assert (decode(raw)["stranded_at"], outcome.name, outcome.is_logged) == (NOW_MS, STRANDED, False)
    expected = [1, 1, 2, 4, 8, 100, 300, 300]
    assert all(0.8 * due <= delay <= 1.2 * due for delay, due in zip(delays, expected, strict=True))
    assert max(delays) <= stranded.MAX_DELAY_SECONDS


def test_the_rest_of_the_payload_is_unchanged_and_no_retry_is_used(jobs):
    job = context("Unknown", retry=False, retry_count=3, error_class="X", custom={"x": 1}, app_version="2.15")
    outcome = judge(jobs, job)
    assert decode(outcome.payload) == {**job.payload, "stranded_at": NOW_MS}
    assert outcome.is_logged
    assert not_stranded(outcome.payload) == job.raw
    assert not_stranded(job.raw) is job.raw


def test_after_stranded_days_it_is_moved_to_the_dead_set(jobs, worker_config):
    worker_config.worker.stranded_days = 7
    assert isinstance(judge(jobs, context("Unknown", stranded_at=NOW_MS - 7 * DAY * 1000)), NotStarted)
    given_up = judge(jobs, context("Unknown", stranded_at=NOW_MS - 7 * DAY * 1000 - 1))
    assert isinstance(given_up, Failed)
    assert isinstance(given_up.error, NoCapableWorker)
    assert str(given_up.error).startswith("Unknown is not declared in this worker")
    assert str(given_up.error).endswith("can run it, for 7 days")


# ------------------------------------------------------------------------------------ reporting


def test_a_stranded_job_is_reported_to_listeners_in_the_log_and_in_redis(jobs, worker_config, clock, caplog):
    heard = []
    worker_config.on("job_stranded", heard.append)
    for number in range(3):
        job = context("Unknown", (number,), stranded_at=NOW_MS)
        jobs.report(job, judge(jobs, job))
    assert [(news.job.jid, news.since) for news in heard] == [("a" * 24, NOW_MS / 1000)] * 3
    assert "no live worker" in heard[0].reason
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "stranded Unknown JID-aaaa" in errors[0].getMessage()
    assert stranded.reasons(jobs._redis) == {"Unknown": heard[0].reason}
    assert stranded.counts(jobs._redis) == {"Unknown": 3}
    clock.advance(60.0)
    jobs.report(job, judge(jobs, job))
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2
