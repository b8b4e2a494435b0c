"""Limits for each key, rate limits and fairness, with a real worker."""

from __future__ import annotations

import threading
import time

import pytest

from offsider import job
from offsider.core.errors import InvalidOptions
from offsider.ext.concurrency_limits import slots as slots_module, store
from offsider.ext.concurrency_limits.store import Names
from offsider.inspector import RetrySet
from offsider.storage import queues
from offsider.testing import RunningWorker
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Look often, so that tests need not wait for a second."""
    monkeypatch.setattr(slots_module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(store, "CHECK_MS", 50)


class Stage:
    """The class ``Act`` of a test: its runs by key."""

    def __init__(self, **declaration):
        self.lock = threading.Lock()
        self.running: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.began: list[tuple[str, float]] = []
        self.go_on = threading.Event()
        job(name="Act", retry=1, **declaration)(self.act)

    def act(self, tenant: str, seconds: float = 0) -> None:
        with self.lock:
            self.running[tenant] = self.running.get(tenant, 0) + 1
            self.most[tenant] = max(self.most.get(tenant, 0), self.running[tenant])
            self.began.append((tenant, time.monotonic()))
        self.go_on.wait(20)
        time.sleep(seconds)
        with self.lock:
            self.running[tenant] -= 1


def push(client, *tenants, seconds=0):
    client.push_bulk({"class": "Act", "args": [[tenant, seconds] for tenant in tenants]})


def test_each_key_has_its_own_slots_and_held_jobs(config, declared, client, limits, redis):
    stage = Stage(concurrency_limit=1, concurrency_key=lambda tenant: tenant)
    config.worker.concurrency = 4
    push(client, "a", "a", "a", "b", "b", None)
    with RunningWorker(config):
        wait_for(lambda: len(stage.began) == 3 and limits.find("Act").held == 3)
        assert [(limit.name, limit.in_use, limit.held) for limit in limits.by_key("Act")] == [
            ("Act[a]", 1, 2),
            ("Act[b]", 1, 1),
        ]
        assert (limits.find("Act").in_use, limits.find("Act").keys, limits.find("Act[a]").held) == (3, 2, 2)
        assert [record.args[0] for record in limits.held("Act", 1, 5)] == ["a", "b"]
        assert [record.args[0] for record in limits.held("Act[b]")] == ["b"]
        assert len(limits.holders("Act")) == 3
        assert [limit.name for limit in limits] == ["Act"]
        stage.go_on.set()
        wait_for(lambda: len(stage.began) == 6)
    assert stage.most == {"a": 1, "b": 1, None: 1}
    for group in store.active(redis):
        store.forget(redis, group)
    assert (store.active(redis), queues.extension_lists(redis), redis.call("KEYS", "*Act[[]*")) == ([], [], [])


def test_held_jobs_of_all_keys_are_deleted_or_quarantined(config, declared, client, limits):
    Stage(concurrency_key=lambda tenant: tenant)
    limits.pause("Act")
    push(client, "a", "a", "b", "c")
    with RunningWorker(config):
        wait_for(lambda: limits.find("Act").held == 4)
    assert limits.delete("Act[a]") == 2
    assert limits.quarantine("Act") == 2
    assert limits.find("Act").held == 0


@pytest.mark.parametrize("change", ["pause", "resume", "unset"])
def test_a_change_names_the_class_and_not_a_key(limits, change):
    with pytest.raises(InvalidOptions, match=r"Act\[a\] is a single key, but limits apply to a class: pass Act"):
        getattr(limits, change)("Act[a]")


def test_a_raised_limit_resumes_held_jobs_of_all_keys(config, declared, client, limits):
    stage = Stage(concurrency_limit=1, concurrency_key=lambda tenant: tenant)
    config.worker.concurrency = 8
    push(client, "a", "a", "b", "b")
    with RunningWorker(config):
        wait_for(lambda: limits.find("Act").held == 2)
        limits.set("Act", 2)
        wait_for(lambda: stage.most == {"a": 2, "b": 2})
        stage.go_on.set()


def test_no_more_jobs_of_a_key_start_in_a_window_than_the_rate_allows(config, declared, client, limits, raw_redis):
    stage = Stage(rate_limit="2/1", rate_key=lambda tenant: tenant)
    stage.go_on.set()
    push(client, *"aaaaab")
    with RunningWorker(config):
        wait_for(lambda: len(stage.began) == 3)
        assert limits.find("Act").rate == "2 1000"
        wait_for(lambda: len(stage.began) == 6, 15)
        wait_for(lambda: limits.find("Act").held == 0)
    starts = [at for tenant, at in stage.began if tenant == "a"]
    gaps = [later - first for first, later in zip(starts, starts[2:], strict=False)]
    # The server counts a start before the job sees the clock.
    assert min(gaps) > 0.9, "more than two starts in a second"
    assert starts[-1] - starts[0] < 6, "held jobs start soon after the window"
    wait_for(lambda: not raw_redis.keys("offsider:limits:recent:*"))


def test_a_rate_limit_without_a_key_is_of_the_class_and_waits_without_polling(config, declared, client, limits, redis):
    stage = Stage(rate_limit=lambda: "1/minute")
    stage.go_on.set()
    push(client, "a", "b")
    with RunningWorker(config):
        wait_for(lambda: len(stage.began) == 1 and limits.find("Act").held == 1)
        due = Names(redis.keys).due
        wait_for(lambda: (redis.call("ZSCORE", due, "Act") or 0) and store.settings(redis).due == ())
        now = float(redis.call("TIME")[0])
        assert now + 50 < float(redis.call("ZSCORE", due, "Act")) / 1000 <= now + 61
    assert len(stage.began) == 1


def test_a_key_function_that_raises_fails_the_job_as_usual(config, declared, client, raw_redis):
    Stage(rate_limit="2/minute", rate_key=lambda tenant: tenant["id"])
    push(client, "a")
    with RunningWorker(config):
        wait_for(lambda: len(RetrySet(config)) == 1)
    (record,) = RetrySet(config)
    assert record.error_class == "offsider.core.errors.InvalidOptions"
    assert record.error_message == "Act: rate_key raised TypeError"


def test_an_invalid_rate_at_run_time_is_reported_and_the_previous_one_applies(config, declared):
    reported, answers = [], iter(["5/minute", "nonsense", None])
    config.error_handlers.append(lambda error, context: reported.append((str(error), context["context"])))
    Stage(rate_limit=lambda: next(answers))
    gate = next(iter(config.admissions))
    table = gate._table
    assert table.learn("Act").rate == "5 60000"
    table.refresh(store.settings(gate._here.redis), 100.0)
    assert table.known["Act"].rate == "5 60000"
    assert reported[0][1] == "evaluating the limits of Act"
    table.refresh(store.settings(gate._here.redis), 200.0)
    assert table.known["Act"] is None
    table.refresh(store.settings(gate._here.redis), 300.0)  # the function raises StopIteration
    assert reported[-1][1] == "evaluating the limits of Act"


def test_jobs_of_a_small_tenant_start_while_a_large_one_waits(config, declared, client, limits):
    """The promise of ``fair_by``: a tenant occupies its share of the threads, and the others do not wait for it."""
    stage = Stage(fair_by=lambda tenant: tenant)
    stage.go_on.set()
    config.worker.concurrency = 8
    limits.set("Act", 2)  # a quarter of the threads
    push(client, *["large"] * 3_000, seconds=0.05)
    with RunningWorker(config):
        wait_for(lambda: len(stage.began) > 4)
        pushed = time.monotonic()
        push(client, *["small"] * 10, seconds=0.001)
        wait_for(lambda: sum(tenant == "small" for tenant, _ in stage.began) == 10, 25)
        took = max(at for tenant, at in stage.began if tenant == "small") - pushed
        done = sum(tenant == "large" for tenant, _ in stage.began)
        limits.pause("Act")
        wait_for(lambda: not any(stage.running.values()))
    assert stage.most["large"] <= 2
    assert took < 20, "3,000 jobs of 50 ms in two threads take 75 seconds"
    assert done < 1_500
