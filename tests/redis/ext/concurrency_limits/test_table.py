"""The limits of a process: declared in code, set by operators, and published to others."""

from __future__ import annotations

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.ext.concurrency_limits import store
from offsider.ext.concurrency_limits.rules import Rules
from offsider.ext.concurrency_limits.table import ASK_SECONDS, DECLARE_SECONDS, Limited, Table
from offsider.storage import processes


@pytest.fixture
def hard(declared):
    @job(name="Hard", aliases=("Old",), concurrency_limit=3)
    def hard() -> None: ...

    @job(name="Free")
    def free() -> None: ...


def table(config, limits=None, *, default_shares=False):
    return Table(Installation.of(config), Rules(limits or {}, default_shares=default_shares))


def test_a_class_is_registered_at_its_first_run_under_its_job_name(config, hard):
    known = table(config)
    assert known.learn("Old") == known.learn("Hard") == Limited("Hard", 3)
    assert known.learn("Free") is None
    assert known.learn("Foreign") is None
    assert set(known.known) == {"Old", "Hard", "Free", "Foreign"}


def test_aliases_are_published(config, hard, redis):
    table(config).refresh(store.settings(redis), 0.0)
    assert store.aliases(redis, config.clock.now()) == {"Old": "Hard"}


def test_settings_made_before_the_first_refresh_apply(config, hard, redis):
    store.set_limit(redis, "Free", 5)
    store.set_paused(redis, "Foreign", paused=True)
    store.set_limit(redis, "Hard", 0)
    known = table(config)
    assert [known.learn(name) for name in ("Free", "Foreign", "Hard")] == [
        Limited("Free", 0),
        Limited("Foreign", 0),
        None,
    ]


def test_settings_made_later_apply_from_the_next_refresh(config, hard, redis):
    known = table(config)
    known.learn("Free")
    store.set_limit(redis, "Free", 5)
    known.refresh(store.settings(redis), 0.0)
    assert known.known == {"Free": Limited("Free", 0)}


def test_limits_and_their_removal_are_published(config, declared, redis):
    answers = {"limit": 4}

    @job(name="Hard")
    def hard() -> None: ...

    known = table(config, {"Hard": lambda: answers["limit"]})
    known.refresh(store.settings(redis), 0.0)
    assert store.declared(redis, config.clock.now()) == {"Hard": 4}
    answers["limit"] = 0
    known.refresh(store.settings(redis), 1.0)
    assert store.declared(redis, config.clock.now()) == {"Hard": 4}, "functions are asked now and then"
    known.refresh(store.settings(redis), ASK_SECONDS)
    assert store.declared(redis, config.clock.now()) == {}


def test_limits_are_published_again_before_they_expire_and_not_every_second(config, hard, redis, raw_redis):
    known = table(config)
    known.refresh(store.settings(redis), 0.0)
    raw_redis.delete("offsider:limits:declared")
    known.refresh(store.settings(redis), ASK_SECONDS)
    assert store.declared(redis, config.clock.now()) == {}
    known.refresh(store.settings(redis), DECLARE_SECONDS + ASK_SECONDS)
    assert store.declared(redis, config.clock.now()) == {"Hard": 3}


@pytest.mark.parametrize("broken", [lambda: 1 / 0, lambda: "many"])
def test_a_failing_function_is_reported_and_keeps_the_last_limit(config, hard, redis, broken):
    reported, answers = [], [lambda: 7, broken]

    def ask():
        return answers.pop(0)()

    config.error_handlers.append(lambda error, context: reported.append(context["context"]))
    known = table(config, {"Hard": ask})
    known.refresh(store.settings(redis), 0.0)
    known.refresh(store.settings(redis), ASK_SECONDS)
    assert known.declared("Hard") == 7
    assert len(reported) == 1


def test_shares_are_of_the_threads_of_all_processes(config, hard, redis):
    known = table(config, default_shares=True)
    assert known.declared("Free") == 0
    for number in range(2):
        info = {"info": '{"concurrency": 50, "hostname": "h", "pid": 1}', "busy": 0, "beat": config.clock.now()}
        processes.heartbeat(redis, f"host:{number}:0123456789ab", info, {}, wire_version=8)
    known.refresh(store.settings(redis), 0.0)
    assert (known.declared("Free"), known.declared("Hard")) == (25, 3)
