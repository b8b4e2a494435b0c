"""Profiles of jobs: stored as Ruby does, consistent tables, nothing for other jobs and failed ones."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time

import pytest

from offsider import InvalidOptions, RedisUnavailable, job
from offsider.config.installation import Installation
from offsider.core.carried_error import frame_at
from offsider.ext import profiles
from offsider.ext.profiles import Profiles, Recording
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request
from offsider.worker.launcher import Launcher
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("default_config")


@pytest.fixture
def profiled(config):
    config.use(Profiles())
    config.worker.concurrency = 2
    return config


@pytest.fixture
def work(profiled):
    launcher = Launcher(profiled)
    yield launcher.start
    launcher.stop()


def slow(seconds: float) -> None:
    until = time.thread_time() + seconds  # in which the profiler can look, too
    while time.thread_time() < until:
        pass


def checked(profile) -> set[str]:
    """The functions of a profile whose tables fit together."""
    (thread,) = profile["threads"]
    for name in ("stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "markers", "samples"):
        table = dict(thread[name])
        length = table.pop("length")
        table.pop("weightType", None)
        assert {len(column) for column in table.values()} == {length}, name
    stacks, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
    assert all(0 <= stack < stacks["length"] for stack in thread["samples"]["stack"])
    assert all(prefix is None or prefix < place for place, prefix in enumerate(stacks["prefix"]))
    assert all(0 <= frame < frames["length"] for frame in stacks["frame"])
    assert all(0 <= function < functions["length"] for function in frames["func"])
    assert thread["samples"]["time"] == sorted(thread["samples"]["time"])
    assert profile["meta"]["preprocessedProfileVersion"] == 47
    return {thread["stringArray"][name] for name in functions["name"]}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_run_is_profiled_and_listed_as_ruby_does(profiled, raw_redis, work, kind):
    if kind == "plain":

        @job(name="Slow")
        def task(seconds: float) -> None:
            slow(seconds)
    else:

        @job(name="Slow")
        async def task(seconds: float) -> None:
            for _ in range(100):
                await asyncio.sleep(seconds / 100)

    jid = task.using(profile="ann").enqueue(0.2)
    work()
    (key,) = wait_for(lambda: raw_redis.zrange("profiles", 0, -1))
    assert key.decode() == f"ann-{jid}"
    assert 86_000 < raw_redis.ttl(key) <= 86_400
    assert 86_000 < raw_redis.zscore("profiles", key) - time.time() <= 86_400
    stored = raw_redis.hgetall(key)
    assert {name: stored[name] for name in (b"token", b"type", b"jid")} == {
        b"token": b"ann",
        b"type": b"Slow",
        b"jid": jid.encode(),
    }
    assert float(stored[b"elapsed"]) >= 0.2
    assert int(stored[b"size"]) == len(stored[b"data"])
    functions = checked(json.loads(gzip.decompress(stored[b"data"])))
    assert any(name.endswith("slow" if kind == "plain" else "task") for name in functions)
    server = Installation.of(profiled)
    (listed,) = profiles.profiles(server.redis, time.time())
    assert (listed.key, listed.type, listed.token) == (key.decode(), "Slow", "ann")
    app = WebApp(WebOptions({"main": server}))
    page = app.respond(Request("GET", "/profiles", headers={"host": "localhost", "accept": "text/html"}))
    assert f"/profiles/ann-{jid}/data" in page.body.decode()
    found = app.respond(Request("GET", f"/profiles/ann-{jid}/data", headers={"host": "localhost"}))
    assert checked(json.loads(found.body)) == functions


def test_lines_of_an_isolated_job_belong_to_one_function():
    recording = Recording(0.0)
    for line in (3, 700, 3):
        recording.add(0.0, [frame_at("app.py", "app", "outer", 9), frame_at("app.py", "app", "inner", line)])
    profile = recording.as_firefox("x")
    assert checked(profile) == {"outer", "inner"}
    (thread,) = profile["threads"]
    assert (thread["funcTable"]["length"], thread["frameTable"]["line"]) == (2, [9, 3, 700])


def test_other_jobs_and_failed_ones_have_no_profile(profiled, raw_redis, work):
    done: list[int] = []

    @job(name="Quick", retry=0)
    def quick(number: int) -> None:
        done.append(number)
        if number == 2:
            raise ValueError("on purpose")

    quick.enqueue(1)
    quick.using(profile="ann").enqueue(2)
    work()
    wait_for(lambda: len(done) == 2 and raw_redis.zcard("dead"))
    assert not raw_redis.exists("profiles")


def test_a_token_is_a_short_text(profiled):
    @job(name="Quick")
    def quick() -> None: ...

    with pytest.raises(InvalidOptions, match="profile must be a text of up to 100 letters"):
        quick.using(profile="x" * 101).enqueue()


def test_a_server_that_is_away_is_reported_and_the_job_has_run(profiled, work, monkeypatch):
    reports, done = [], []
    profiled.error_handlers.append(lambda error, context: reports.append(context["context"]))

    def away(*_: object) -> None:
        raise RedisUnavailable("away")

    @job(name="Quick")
    def quick() -> None:
        done.append(1)

    monkeypatch.setattr(profiles, "_store", away)
    quick.using(profile="ann").enqueue()
    work()
    wait_for(lambda: reports == ["storing a profile"])
    assert done == [1]


def test_only_listed_profiles_are_served_and_odd_ones_are_left_out(profiled, raw_redis):
    raw_redis.hset("secret", "data", "x")
    raw_redis.zadd("profiles", {"gone": time.time() + 100, "over": time.time() - 100})
    server = Installation.of(profiled)
    assert profiles.profiles(server.redis, time.time()) == []
    app = WebApp(WebOptions({"main": server}))
    for key in ("secret", "gone", "nothing"):
        headers = {"host": "localhost"}
        assert app.respond(Request("GET", f"/profiles/{key}/data", headers=headers)).status == 404


def test_a_long_run_is_sampled_less_often(monkeypatch):
    monkeypatch.setattr(profiles, "MAX_SAMPLES", 10)
    recording = Recording(1.0)
    for number in range(25):
        recording.add(float(number), [sys._getframe()])
    assert recording.every > 1
    assert recording.as_firefox("x")["threads"][0]["samples"]["length"] < 10
