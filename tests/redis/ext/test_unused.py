"""What a job does not use costs it nothing: same commands, keys and payload with and without the extensions."""

from __future__ import annotations

import json
import re
import time

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.ext.batches import Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiters
from offsider.ext.results import Results
from offsider.ext.unique import Unique
from offsider.jobs import registry
from offsider.storage import scripts
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.testing.running_worker import RunningWorker
from tests.waiting import wait_for

EXTENSIONS = (Unique, ConcurrencyLimits, Limiters, Results, Batches)
#: The smallest of these counts: on a busy machine a request acknowledges fewer jobs, and costs more for each.
ROUNDS = 12
JOBS = 200
PUSHES = [
    "SADD queues +1",
    "LPUSH queue:plain +1",
    "SADD queues +1",
    "LPUSH queue:plain +2",
    "ZADD schedule +2",
]
_PRIVATE = "offsider:working:IDENTITY:default:plain"
RUNS = [
    "LPUSH queue:plain +1",
    f"ack_and_claim offsider:fenced:IDENTITY offsider:controls:version paused queue:plain {_PRIVATE} +5",
    f"LPOS {_PRIVATE} +1",  # before a failed job calls the application's handlers
    f"settle offsider:fenced:IDENTITY {_PRIVATE} retry retry +5",
    "ZADD schedule +2",
    "move schedule queues offsider:quarantine:jobs queue:plain +9",
]
FIELDS = ["retry", "queue", "class", "args", "jid", "created_at", "enqueued_at"]
SCHEDULED_FIELDS = FIELDS[:-1]


@pytest.fixture(autouse=True)
def _declared():
    with registry.isolated():

        @job(name="Plain", queue="plain")
        def plain(text):
            pass

        @job(name="Fails", queue="plain", retry=3)
        def fails():
            raise ValueError

        yield


def configured(redis_url, extensions):
    config = Config()
    config.redis.url = redis_url
    config.worker.concurrency = 1
    config.worker.queues = ["plain"]
    for extension in extensions:
        config.use(extension())
    return config


def shape(command: str, ids: list[str]) -> str:
    """The name of the command or script, its keys without variable parts, and the number of arguments."""
    words = command.split()
    if words[0].upper() == "EVALSHA":
        name = next((one.name for one in scripts._every if one.sha == words[1]), "unknown")
        count = int(words[2])
        words = [name, *words[3 : 3 + count], f"+{len(words) - 3 - count}"]
    else:
        words = [words[0].upper(), words[1], f"+{len(words) - 2}"]
    text = " ".join(words).replace(DEFAULT_PREFIX, "")  # of a Cluster
    for one in ids:
        text = text.replace(one, "JID")
    return re.sub(r"[\w.-]+:\d+:[0-9a-f]{12}", "IDENTITY", text)


def recorded(raw_redis, act) -> list[str]:
    with raw_redis.monitor() as monitor:
        act()
        raw_redis.echo("end of the recording")
        found = []
        while "end of the recording" not in (command := monitor.next_command())["command"]:
            # Connections are opened when they are needed.
            if command["client_type"] != "lua" and not command["command"].startswith(("HELLO", "CLIENT")):
                found.append(command["command"])
    return found


def lives(raw_redis, config) -> tuple[list[str], list[str], list[bytes], float]:
    """Commands of pushes, commands of runs, the payloads, and the calls of the server per job."""
    client, jids, payloads = Client(config), [], []
    client.push({"class": "Plain", "args": ["first"], "queue": "plain"})  # makes the client known

    def push():
        jids.append(client.push({"class": "Plain", "args": ["one"], "queue": "plain"}))
        jids.extend(client.push_bulk({"class": "Plain", "args": [["two"], ["three"]], "queue": "plain"}))
        jids.append(client.push({"class": "Plain", "args": ["later"], "queue": "plain", "at": time.time() + 3600}))

    pushes = [shape(command, jids) for command in recorded(raw_redis, push)]
    payloads = [*raw_redis.lrange("queue:plain", 0, -1), *raw_redis.zrange("schedule", 0, -1)]
    for script in scripts._every:
        raw_redis.script_load(script.text)
    with RunningWorker(config) as worker:
        client.push({"class": "Fails", "args": [], "queue": "plain"})  # the scripts are known afterwards
        worker.wait()
        seen: list[str] = []

        def run():
            seen.append(client.push({"class": "Plain", "args": ["run"], "queue": "plain"}))
            worker.wait()
            seen.append(client.push({"class": "Fails", "args": [], "queue": "plain"}))
            wait_for(lambda: raw_redis.zcard("retry") == 2)
            seen.append(client.push({"class": "Plain", "args": ["due"], "queue": "plain", "at": time.time() + 0.1}))
            wait_for(lambda: raw_redis.zcard("schedule") == 1)
            worker.wait()

        commands = recorded(raw_redis, run)
        runs = [shape(command, seen) for command in commands if any(one in command for one in seen)]
        # Histories of attempts and errors are written for all jobs of an interval together.
        runs = [one for one in runs if not any(f"offsider:{what}" in one for what in ("attempts", "errors", "events"))]
        costs: list[float] = []
        for _ in range(ROUNDS):
            before = calls(raw_redis)
            client.push_bulk({"class": "Plain", "args": [["many"]] * JOBS, "queue": "plain"})
            worker.wait()
            costs.append((calls(raw_redis) - before) / JOBS)
    return pushes, runs, payloads, min(costs)


def calls(raw_redis) -> int:
    """Calls of commands, those in scripts included, apart from the tests' own."""
    stats = raw_redis.info("commandstats")
    return sum(one["calls"] for name, one in stats.items() if name not in ("cmdstat_info", "cmdstat_llen"))


def test_a_job_that_uses_no_extension_costs_the_same_with_all_of_them(redis_url, raw_redis):
    found = []
    for extensions in ((), EXTENSIONS):
        raw_redis.flushall()
        pushes, runs, payloads, per_job = lives(raw_redis, configured(redis_url, extensions))
        assert pushes == PUSHES
        assert set(runs) == set(RUNS)
        assert [[*json.loads(payload)] for payload in payloads] == [FIELDS] * 4 + [SCHEDULED_FIELDS]
        found.append(per_job)
    without, with_all = found
    assert with_all - without < 0.5, f"{with_all} calls per job, {without} without extensions"
