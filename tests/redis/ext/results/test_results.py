"""States and results of jobs that a real worker runs."""

from __future__ import annotations

import asyncio
import threading
import time
from decimal import Decimal

import pytest

from offsider import (
    Discard,
    InvalidArguments,
    Job,
    JobFailed,
    NoResult,
    Reschedule,
    ResultTimeout,
    Skip,
    current_job,
    job,
    lookup,
    testing,
)
from offsider.core import wording
from offsider.ext.results import Results
from offsider.inspector import DeadSet, Queue, RetrySet, ScheduledSet
from offsider.jobs import registry
from offsider.testing.running_worker import RunningWorker
from tests.waiting import wait_for

# Not in the registry of other tests; a fixture of conftest.py registers them.
with registry.isolated():

    @job(keep_result=60)
    def double(number):
        if number == "skip":
            raise Skip
        return 2 * number

    @job(track=True)
    def tracked(value):
        return value

    @job(keep_result=60, track="arguments")
    def fails_once(number, *, word):
        if current_job().attempt == 1:
            raise KeyError(word)
        return number

    @job(track=True, retry=0)
    def dies():
        raise ValueError("no")

    @job(track=True, retry=False)
    def fails():
        raise ValueError("no")

    @job(track=True)
    def retried():
        raise ValueError("not yet")

    @job(track=True)
    def discarded():
        raise Discard("old")

    @job(track=True)
    def rescheduled():
        raise Reschedule(60)

    @job
    def untracked():
        return 1

    class Awaited(Job, keep_result=60):
        async def perform(self, number):
            await asyncio.sleep(0)
            return {"number": number, "jid": self.jid}


@pytest.fixture
def worker(config):
    with RunningWorker(config) as worker:
        yield worker


def test_the_result_of_functions_and_of_coroutines_in_classes(worker):
    jid = double.enqueue(21)
    assert jid.result(timeout=60) == 42
    assert jid.status() == "succeeded"
    awaited = Awaited.enqueue(3)
    assert awaited.result(timeout=60) == {"number": 3, "jid": awaited}
    assert lookup(str(jid)).result() == 42


def test_asynchronously(worker):
    async def wait():
        jid = await Awaited.aenqueue(3)
        value = await jid.aresult(timeout=60)
        return value["number"], await jid.astatus()

    assert asyncio.run(wait()) == (3, "succeeded")


def test_states_of_jobs_that_wait(config):
    assert double.enqueue(1).status() == "queued"
    later = double.enqueue_in(60, 1)
    assert later.status() == "scheduled"
    assert later.info().due_at == pytest.approx(time.time() + 60, abs=5)
    assert asyncio.run(later.astatus()) == "scheduled"
    assert untracked.enqueue().status() == "untracked"
    assert untracked.using(track=True).enqueue().status() == "queued"
    assert double.using(keep_result=False, track=False).enqueue(1).status() == "untracked"


def test_a_due_job_of_the_schedule_is_queued(config):
    jid = double.enqueue_in(60, 1)
    now = time.time()
    config.clock = type("Later", (), {"now": lambda self: now + 61})()
    assert jid.status() == "queued"


def test_a_job_that_keeps_its_result_keeps_its_arguments_and_failed_runs(worker):
    jid = fails_once.enqueue(7, word="é")
    info = jid.info()
    assert (info.args, info.kwargs) == ([7], {"word": "é"})  # it may have started, or failed, already
    wait_for(lambda: jid.status() == "retrying")
    info = jid.info()
    (failure,) = info.failures
    assert (failure.attempt, failure.error_class, failure.process) == (1, "KeyError", info.process)
    assert failure.started_at == info.started_at <= failure.failed_at == info.changed_at
    assert failure.traceback.startswith("Traceback")
    assert failure.traceback.endswith("raise KeyError(word)\nKeyError: 'é'\n")
    (entry,) = RetrySet()
    assert entry.add_to_queue()
    assert jid.result(timeout=60) == 7
    info = jid.info()
    assert (info.args, info.failures, info.error_class) == ([7], (failure,), "")
    assert failure.started_at < info.started_at <= info.changed_at


@pytest.mark.parametrize(
    "declared, state, error",
    [
        (dies, "dead", "ValueError: no"),
        (fails, "failed", "ValueError: no"),
        (discarded, "discarded", "offsider.core.errors.Discard: old"),
    ],
)
def test_a_job_without_success_raises_from_result(worker, declared, state, error):
    jid = declared.enqueue()
    with pytest.raises(JobFailed, match=f"job {jid} has ended as {state}: {error}") as raised:
        jid.result(timeout=60)
    assert raised.value.state == jid.status() == state
    with pytest.raises(JobFailed):
        asyncio.run(jid.aresult(timeout=0))


def test_a_failed_job_that_will_be_retried_has_not_ended(worker):
    jid = retried.enqueue()
    wait_for(lambda: jid.status() == "retrying")
    assert jid.info().error_message == "not yet"
    with pytest.raises(ResultTimeout, match=r"has not finished after 0\.1 s: it is retrying"):
        jid.result(timeout=0.1)
    with pytest.raises(TimeoutError, match="has not finished: it is retrying"):
        asyncio.run(jid.aresult(timeout=0))
    assert RetrySet().find_job(jid) is not None


def test_a_job_that_starts_too_late_has_expired(config):
    jid = double.using(expires_in=0.01).enqueue(1)
    time.sleep(0.05)
    with RunningWorker(config), pytest.raises(JobFailed, match="has ended as expired"):
        jid.result(timeout=60)


def test_a_skipped_job_succeeds_without_a_value(worker):
    assert double.enqueue("skip").result(timeout=60) is None


def test_a_tracked_job_keeps_only_none_as_its_result(worker):
    assert tracked.enqueue(None).result(timeout=60) is None
    with pytest.raises(NoResult, match=r"the job does not keep it; declare the job with keep_result=SECONDS"):
        tracked.enqueue(1).result(timeout=60)


def test_waiting_for_an_untracked_job_is_an_error(worker):
    with pytest.raises(NoResult, match=r"is not tracked, or its state .* with keep_result=.* waits for a commit or in"):
        untracked.enqueue().result(timeout=60)
    with pytest.raises(LookupError):
        asyncio.run(lookup("f" * 24).aresult())


def nested():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value, why",
    [
        ({1}, "it is not JSON: Object of type set is not JSON serializable"),
        ({1: 2}, "it has a key of type int; JSON keys are strings"),
        (nested(), "it is nested too deeply for JSON, or contains itself"),
        ("x" * 2_000_000, r"it has 2,000,002 bytes, over result_max_bytes \(1,048,576\)"),
    ],
)
def test_a_result_that_cannot_be_stored_does_not_fail_the_job(config, value, why):
    config.error_handlers.clear()
    reported = []
    config.error_handlers.append(lambda error, context: reported.append(str(error)))

    @job(name="odd", keep_result=60)
    def odd():
        return value

    with RunningWorker(config) as worker:
        jid = odd.enqueue()
        with pytest.raises(NoResult, match=f"has succeeded, but there is no result: .* cannot be stored: {why}"):
            jid.result(timeout=60)
        worker.wait()
    assert jid.status() == "succeeded"
    assert len(reported) == 1
    assert "cannot be stored" in reported[0]
    assert len(RetrySet()) == len(DeadSet()) == len(Queue("default")) == 0


@pytest.mark.parametrize("results", [Results(track=True, keep_result=60)], ids=["defaults"])
def test_defaults_apply_to_jobs_without_the_options(config):
    with RunningWorker(config):
        assert untracked.enqueue().result(timeout=60) == 1
        assert untracked.using(keep_result=False, track=False).enqueue().status() == "untracked"


def test_every_key_expires(worker, raw_redis):
    double.enqueue_in(60, 1)
    double.enqueue(1).result(timeout=60)
    retried.enqueue()
    wait_for(lambda: len(RetrySet()) == 1)
    keys = raw_redis.keys("offsider:results:*")
    assert len(keys) == 5
    lives = {key: raw_redis.pttl(key) for key in keys}
    assert min(lives.values()) > 0
    assert min(lives.values()) <= 60_000  # the kept result


def test_a_job_that_is_deleted_or_killed_has_ended(config):
    jid, other, killed = double.enqueue(1), double.enqueue(2), double.enqueue_in(60, 3)
    queue = Queue("default")
    queue.delete(queue.find_job(jid))
    assert jid.status() == "discarded"
    assert other.status() == "queued"
    ScheduledSet().find_job(killed).kill()
    assert killed.status() == "dead"
    DeadSet().find_job(killed).delete()
    assert killed.status() == "dead"


def test_a_deleted_job_wakes_its_waiters(config):
    jid, raised = double.enqueue(1), []

    def wait():
        with pytest.raises(JobFailed, match="has ended as discarded"):
            jid.result(timeout=60)
        raised.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    queue = Queue("default")
    queue.delete(queue.find_job(jid))
    thread.join(60)
    assert raised == [True]


def test_result_inside_of_a_job_warns_of_a_deadlock(config, caplog, monkeypatch):
    monkeypatch.setattr(wording, "_seen", {})
    inner = double.enqueue_in(60, 1)

    @job(name="outer-that-waits", keep_result=60)
    def outer():
        with pytest.raises(ResultTimeout):
            inner.result(timeout=0.01)

    with RunningWorker(config):
        outer.enqueue().result(timeout=60)
        outer.enqueue().result(timeout=60)
    warnings = [record for record in caplog.records if "wait forever" in record.getMessage()]
    assert len(warnings) == 1
    assert inner in warnings[0].getMessage()


def test_progress_is_written_at_most_once_a_second_and_its_last_value_with_the_outcome(worker, raw_redis):
    seen, go_on = threading.Event(), threading.Event()

    @job(name="long", track=True)
    def long():
        current_job().progress(0, 100, "begins")
        seen.set()
        for done in range(100):
            current_job().progress(done, 100)
        go_on.wait(60)
        current_job().progress(100, 100, "done")

    before = raw_redis.info("commandstats").get("cmdstat_hset", {"calls": 0})["calls"]
    jid = long.enqueue()
    seen.wait(60)
    wait_for(lambda: jid.info().progress is not None)
    assert jid.info().progress.total == 100
    writes = raw_redis.info("commandstats")["cmdstat_hset"]["calls"] - before
    go_on.set()
    jid.result(timeout=60)
    assert jid.info().progress.done == 100
    assert jid.info().progress.message == "done"
    assert writes < 12


def test_in_a_test_mode_states_and_results_are_in_memory(config):
    config.redis.url = "redis://127.0.0.1:1"  # no server is needed
    with testing.inline(config=config):
        jid = double.enqueue(2)
        assert jid.status() == asyncio.run(jid.astatus()) == "succeeded"
        assert jid.result() == asyncio.run(jid.aresult()) == 4
    with testing.fake(config=config) as pushed:
        jid = double.enqueue(2)
        assert jid.status() == asyncio.run(jid.astatus()) == "queued"
        assert not jid.cancel()
        for result in (jid.result, lambda: asyncio.run(jid.aresult())):
            with pytest.raises(NoResult, match=r"has not run: in fake mode, drain\(\) runs it"):
                result()
        pushed.drain()
        assert jid.result() == asyncio.run(jid.aresult()) == 4


def test_a_wrong_report_harms_neither_the_state_of_its_job_nor_the_reports_of_others(worker):
    go_on = threading.Event()

    @job(name="wrong-progress", track=True)
    def wrong():
        with pytest.raises(InvalidArguments):
            current_job().progress(Decimal(1))
        go_on.wait(60)

    @job(name="right-progress", track=True)
    def right():
        current_job().progress(1)
        go_on.wait(60)

    first, second = wrong.enqueue(), right.enqueue()
    wait_for(lambda: second.info().progress is not None)
    go_on.set()
    assert first.result(timeout=60) is None
    assert second.result(timeout=60) is None
    assert first.info().progress is None


def test_the_list_of_finished_jobs_is_bounded(redis_url, monkeypatch, raw_redis, config):
    from offsider.config.installation import Installation
    from offsider.ext.results import store

    with RunningWorker(config) as worker:
        for number in range(3):
            double.enqueue(number).result(timeout=60)
        worker.wait()
    redis = Installation.of(config).redis
    name = store.classes(redis)[0][0]
    assert [job.state for job in store.finished(redis, name, 2)] == ["succeeded"] * 2
    assert raw_redis.llen(f"offsider:results:done:{name}") == 3
