"""Each fault of workers, queues and stored jobs is a finding that names its subject, its numbers and a fix."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from offsider.inspector.finding import Severity
from offsider.inspector.findings import data_checks
from offsider.inspector.findings.data_checks import CHECKS, DOCTOR_CHECKS, check_clocks, check_latency
from offsider.storage.clocks import Comparison
from tests.redis.inspector.examined import OURS, RUBYS, examined, look, payload, push, register
from tests.tagged import client_of

DEAD = "gone:9:deadbeef0000"
TODAY = datetime.now(UTC).strftime("%Y-%m-%d")
ERROR, WARN = Severity.ERROR, Severity.WARN
NOW = time.time()


@dataclass
class Case:
    """A fault, and the finding that it must be.

    Attributes:
        arrange: makes the fault.
        started: how many seconds ago it began, if the finding states that.
    """

    id: str
    severity: Severity
    arrange: Callable[..., object]
    what: str
    action: str
    subject: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    started: float | None = None


def leave_orphan(client):
    client.hset("offsider:owners", DEAD, '{"default": ["default"]}')
    client.lpush(f"offsider:working:{DEAD}:default:default", payload("A"))


def move_half(client):
    client.sadd("offsider:in-transit", "bulk")
    client.lpush("offsider:in-transit:bulk", "m1 slow\n{}", "m2 slow\n{}")


def use_another_prefix(client):
    register(client, knows=["A"])
    client.sadd("shop:queues", "default")


CASES = [
    Case(
        "workers",
        WARN,
        lambda client: None,
        "no worker is registered",
        "offsider worker -r YOUR_MODULE",
        numbers={"jobs": 0},
    ),
    Case(
        "latency",
        WARN,
        lambda client: register(client, rtt_us=80_000),
        f"a round trip to the server takes up to 80 ms for {OURS}",
        "run clients and workers close to the server",
        OURS,
        {"round_trip_seconds": 0.08},
    ),
    Case(
        "clock",
        WARN,
        lambda client: register(client, beat=time.time() - 40),
        f"the clock of {OURS} is 40 s behind the server's, or its last heartbeat is that old",
        "on web-1: timedatectl set-ntp true; if it hangs: offsider dump",
        OURS,
        {"ahead_seconds": pytest.approx(-40, abs=10)},
    ),
    Case(
        "wire version",
        ERROR,
        lambda client: (register(client, knows=["A"], version="1.0.0"), register(client, RUBYS, version="")),
        f"{RUBYS} is Sidekiq 6 or older, but wire_version is 8",
        "set redis.wire_version = 6",
        RUBYS,
    ),
    Case(
        "orphans",
        ERROR,
        leave_orphan,
        f"dead processes own 1 job: {DEAD}",
        "start a worker: offsider worker",
        DEAD,
        {"jobs": 1, "processes": 1},
    ),
    Case(
        "scheduler",
        ERROR,
        lambda client: client.zadd("retry", {payload("B"): time.time() - 3600, payload("C"): time.time() + 3600}),
        "a job of the retry set is overdue by 3600 s",
        "start a worker",
        "retry",
        {"late_seconds": pytest.approx(3600, abs=60)},
        started=3600,
    ),
    Case(
        "transit",
        WARN,
        move_half,
        "2 jobs in transit to the server bulk",
        "within a day, run it again: offsider queues move FROM TO --to-server bulk",
        "bulk",
        {"jobs": 2},
    ),
    Case(
        "dead set",
        WARN,
        lambda client: client.zadd("dead", {f"job {n}": n for n in range(9_500)}),
        "the dead set has 9,500 jobs, the limit is 10,000",
        "review the jobs: offsider jobs --where dead",
        "dead set",
        {"jobs": 9_500, "limit": 10_000},
    ),
    Case(
        "unregistered",
        ERROR,
        lambda client: client.lpush("queue:new", payload("A")),
        "jobs wait in queues that no client has registered: new",
        "offsider worker -r YOUR_MODULE -q new (a worker registers its queues)",
        "new",
        {"queues": 1},
    ),
    Case(
        "foreign lists",
        WARN,
        lambda client: client.lpush(f"queue:sq|{RUBYS}|default", payload("A")),
        "private lists of other reliable fetchers exist: {tag}queue:sq|" + RUBYS + "|default",
        "if no such process runs anymore, start one once",
        "{tag}queue:sq|" + RUBYS + "|default",
        {"lists": 1},
    ),
    Case(
        "prefix",
        WARN,
        use_another_prefix,
        "there is no queue under the prefix '{tag}', but there are queues under '{tag}shop:'",
        "set redis.key_prefix = '{tag}shop:' where it is missing",
        "{tag}shop:",
        {"prefixes": 1},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.id}, {case.severity.name.lower()}" for case in CASES])
def test_a_fault_is_found_with_subject_numbers_and_fix(redis_url, raw_redis, tag, case):
    case.arrange(raw_redis)
    finding = examined(redis_url)[case.id]
    assert (finding.severity, finding.what) == (case.severity, case.what.replace("{tag}", tag))
    assert finding.actions[0].startswith(case.action.replace("{tag}", tag))
    assert (finding.subject, finding.numbers) == (case.subject.replace("{tag}", tag), case.numbers)
    if case.started is None:
        assert finding.since is None
    else:
        assert finding.since == pytest.approx(time.time() - case.started, abs=60)


WELL = {
    "a served queue": lambda client: push(client, "A", "A"),
    "an empty queue without a worker": lambda client: client.sadd("queues", "seldom"),
    "a job that is due later": lambda client: client.zadd("schedule", {payload("A"): time.time() + 3600}),
    "a job of a live process": lambda client: client.lpush(f"offsider:working:{OURS}:default:default", payload("A")),
    "jobs of a dead process, which the live worker requeues": leave_orphan,
    "another application with its own prefix": lambda client: (
        client.sadd("queues", "default"),
        client.sadd("shop:queues", "default"),
    ),
    "a worker that has just started far away": lambda client: register(
        client, knows=["A"], rtt_us=80_000, started_at=time.time() - 3
    ),
    "a process that reports no time": lambda client: register(client, RUBYS, beat=""),
    "a Ruby process of the same wire version": lambda client: register(client, RUBYS, version="8.0.1"),
    "a finished move": lambda client: client.sadd("offsider:in-transit", "bulk"),
}


@pytest.mark.parametrize("arrange", WELL.values(), ids=WELL)
def test_what_is_well_is_no_finding(redis_url, raw_redis, arrange):
    register(raw_redis, knows=["A"])
    arrange(raw_redis)
    assert examined(redis_url) == {}


@pytest.mark.parametrize("jobs, cause", [(1, None), (2, "when it is full, dropped jobs are deleted, reviewed or not")])
def test_a_full_quarantine(redis_url, raw_redis, monkeypatch, jobs, cause):
    monkeypatch.setattr("offsider.storage.quarantine.MAX_JOBS", 2)
    raw_redis.zadd("offsider:quarantine", {f"{n}": n for n in range(jobs)})
    finding = examined(redis_url).get("quarantine")
    assert (finding and finding.cause) == cause


@pytest.mark.parametrize(
    "comparison, found",
    [
        (Comparison(0.0002, NOW, 0.5), []),
        (Comparison(0.02, NOW, 0.5), ["a round trip to the server takes up to 20 ms for this host"]),
        (Comparison(0.0002, NOW, -90.0), ["the clock of this host is 90 s ahead of the server's"]),
        (Comparison(0.0002, NOW, 90.0), ["the clock of this host is 90 s behind the server's"]),
    ],
)
def test_the_clock_and_the_round_trip_of_this_host(config, comparison, found):
    seen = look(config, comparison)
    assert [each.what for check in (check_latency, check_clocks) for each in check(seen)] == found


def test_ruby_processes_all_newer_than_the_wire_format(redis_url, raw_redis):
    register(raw_redis, RUBYS, version="8.1.7")
    register(raw_redis, RUBYS + "2", version="8.0.0")
    finding = examined(redis_url, wire_version=7)["wire version"]
    assert (finding.severity, finding.actions) == (WARN, ("set redis.wire_version = 8",))


@pytest.mark.needs("redis-server")
def test_the_fix_of_a_lock_that_never_expires_works_at_every_node_of_a_cluster(cluster):
    with client_of(cluster.url) as client:
        register(client, knows=["A"])
        client.persist(f"offsider:alive:{OURS}")
        finding = examined(cluster.url)["locks"]
        assert (finding.severity, finding.numbers) == (ERROR, {"keys": 1})
        program, *words = shlex.split(finding.actions[0])
        deleted = subprocess.run(
            [program, "-p", str(cluster.others()[0].port), *words], check=True, capture_output=True, text=True
        )
        assert deleted.stdout.strip() == "1"
        assert not client.exists(f"offsider:alive:{OURS}")


def test_the_fix_of_a_lock_on_a_single_server(redis_url, raw_redis, tag, redis_cli):
    register(raw_redis, knows=["A"])
    raw_redis.persist(f"offsider:alive:{OURS}")
    assert examined(redis_url)["locks"].actions == (f"{redis_cli} DEL {tag}offsider:alive:{OURS}",)


def test_a_check_that_the_server_refuses_hides_no_other(redis_url, raw_redis):
    raw_redis.set("dead", "a string")
    raw_redis.set("queue:odd", "a string")
    raw_redis.sadd("queues", "odd")
    found = examined(redis_url)
    assert found["limits"].what.startswith("the check failed: ")
    assert "workers" in found


def test_every_check_is_among_the_checks():
    own = {name for name in vars(data_checks) if name.startswith("check_")} - {"check_wire_version"}
    assert {check.__name__ for check in (*CHECKS, *DOCTOR_CHECKS)} == own
