"""Large payloads, and malformed payloads."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from typing import Any

from bench.compare.machine import memory_mb
from bench.scoreboard.environment import Environment
from bench.scoreboard.row import Report, row
from bench.scoreboard.stored_jobs import entries, jids, values
from bench.scoreboard.web_pages import first_job
from bench.servers import Server
from offsider.core.payload import new_jid
from offsider.core.segments import segment
from offsider.inspector import JobRecord
from tests.waiting import wait_for

THREADS = 4
MEGABYTE = 1_000_000


@row(
    "R14",
    "1,000 jobs with an argument of 1 MB, and one of 50 MB",
    bar="all run; each push of more than `large_payload_bytes` logs a warning; the pages that show such jobs are "
    "small, and take < 500 ms",
    heavy=True,
)
def large_payloads(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=40, full=1_000)
    giant = env.pick(smoke=10, full=50)
    server = env.server(persist=False)
    client = env.client(server.url)
    warnings = Warnings()
    logging.getLogger("offsider").addHandler(warnings)
    worker = env.workers(server.url).start("-c", str(THREADS))
    acked: list[str] = []
    for number in range(jobs):
        jid = client.push({"class": "scoreboard.Work", "args": [number, 0, "x" * MEGABYTE]})
        acked += [jid] if jid else []
        wait_for(lambda: server.raw.llen("queue:default") < 100)  # queued jobs must fit into memory
    jid = client.push({"class": "scoreboard.Work", "args": [0, 0, "x" * giant * MEGABYTE]})
    acked += [jid] if jid else []
    env.finish(report, acked, server)
    report.count(f"warnings {jobs + 1}, got {warnings.count}", warnings.count == jobs + 1)
    report.count("the worker still runs", worker.runs)
    report.figure("worker memory", f"{memory_mb(worker.pid)[0]:.0f} MB")
    looked_at(env, server, report, giant)


def looked_at(env: Environment, server: Server, report: Report, giant: int) -> None:
    """Check pages of such jobs: queued ones, failed ones, and running ones."""
    client, pages = env.client(server.url), env.pages(server)
    for _ in range(25):
        client.push({"class": "scoreboard.Work", "args": ["x" * MEGABYTE], "queue": "large"})
    jid = client.push({"class": "scoreboard.Work", "args": [0, 0, "y" * giant * MEGABYTE], "queue": "giant"})
    raw = server.raw.lindex("queue:giant", 0)
    server.raw.zadd("retry", {raw: 4e9})
    large = first_job(pages.data("/jobs?where=queue:large"))[1]
    for name, target in (
        ("25 jobs of 1 MB", "/jobs?where=queue:large"),
        ("a job of 1 MB", large),
        ("all of it", f"{large}?all=1"),
        (f"a queue with a job of {giant} MB", "/jobs?where=queue:giant"),
        (f"a retry of {giant} MB in the list", "/jobs?where=retry"),
        (f"a job of {giant} MB", f"/job/retry/{segment(f'4000000000.0|{jid}')}"),
        ("dashboard", "/"),
    ):
        reply = pages.get(target)
        ms, kilobytes = reply.seconds * 1000, len(reply.body) / 1000
        most = 2_500 if "all=1" in target else 500
        report.count(f"{name} is shown on {most} KB: {reply.status}, {kilobytes:.0f}", kilobytes < most)
        report.count(f"{name} is shown: {reply.status}", reply.status == 200)
        report.within(name, ms, 500, "ms")


class Warnings(logging.Handler):
    """Counts warnings about size."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "bytes" in record.getMessage()


@row(
    "R15",
    "10,000 different strings in a queue that are malformed payloads, or jobs with invalid values",
    bar="no worker exits; each string is in the dead set unchanged, waits for a retry or for a worker that knows its "
    "class, or ran; in private lists 0",
)
def malformed_payloads(env: Environment, report: Report) -> None:
    wanted = env.pick(smoke=1_000, full=10_000)
    server = env.server(persist=False)
    sent: dict[bytes, int] = {}
    while len(sent) < wanted:
        sent.setdefault(malformed(env.dice, len(sent)), len(sent))
    raws = [*sent]
    server.raw.sadd("queues", "default")
    for start in range(0, wanted, 1000):
        server.raw.lpush("queue:default", *raws[start : start + 1000])
    # Raise the limit of the dead set, so that it keeps all of these.
    fleet = env.workers(server.url, OFFSIDER_WORKER_DEAD_MAX_JOBS="20000", OFFSIDER_LOG_LEVEL="critical")
    worker = fleet.start("-c", str(THREADS), wait=False)
    wait_for(lambda: not server.raw.llen("queue:default") or not worker.runs, 240, "the queue is empty")
    env.settled(server)

    accounts = Accounts(env, server.raw)
    missing = [raw for raw, number in sent.items() if not accounts.know(raw, number)]
    report.tally.pushed = report.tally.acked = wanted
    report.tally.lost = len(missing)
    report.tally.ran = wanted - len(missing) - accounts.dead_as_it_was - accounts.retrying - accounts.stranded
    report.nothing("lost", missing)
    report.count("no worker has ended", worker.runs)
    report.nothing("in private lists", len(entries(server.raw)))
    report.figure("in the dead set with their bytes", accounts.dead_as_it_was)
    report.figure("in the retry set", accounts.retrying)
    report.figure("stranded, since no worker knows their class", accounts.stranded)


class Accounts:
    """The locations of the strings that were sent."""

    def __init__(self, env: Environment, raw: Any) -> None:
        dead, retry, stranded = (raw.zrange(key, 0, -1) for key in ("dead", "retry", "schedule"))
        self._dead = {JobRecord(member).unwrapped for member in dead}
        self._jids = {*jids([*dead, *retry, *stranded]), *env.ledger.counts()}
        #: from a separate field, which every move preserves
        self._numbers = {*values("number", [*dead, *retry, *stranded]), *map(int, env.ledger.counts("marked"))}
        self.dead_as_it_was = 0
        self.retrying = len(retry)
        self.stranded = len(stranded)

    def know(self, raw: bytes, number: int) -> bool:
        if raw in self._dead:
            self.dead_as_it_was += 1
            return True
        return not self._jids.isdisjoint(jids([raw])) or number in self._numbers


def malformed(dice: random.Random, number: int) -> bytes:
    """Return one malformed payload."""
    job: dict[str, Any] = {
        "class": "scoreboard.Marked",
        "args": [number],
        "jid": new_jid(),
        "queue": "default",
        "retry": True,
        "created_at": 1_700_000_000_000,
        "number": number,
    }
    return dice.choice(WRONGS)(dice, job)


def _bytes(dice: random.Random, _job: dict[str, Any]) -> bytes:
    return dice.randbytes(dice.randint(1, 200))


def _cut(dice: random.Random, job: dict[str, Any]) -> bytes:
    raw = json.dumps(job).encode()
    return raw[: dice.randrange(1, len(raw))]


def _bent(dice: random.Random, job: dict[str, Any]) -> bytes:
    """Replace one byte of the first half, which contains class, arguments and their names."""
    raw = bytearray(json.dumps(job).encode())
    raw[dice.randrange(len(raw) // 3)] = dice.randrange(256)
    return bytes(raw)


def _other_value(dice: random.Random, job: dict[str, Any]) -> bytes:
    key = dice.choice(
        ["class", "args", "queue", "created_at", "enqueued_at", "retry_count", "interrupted_count", "kwargs"]
    )
    return json.dumps(job | {key: dice.choice(ODD_VALUES)}).encode()


def _without(dice: random.Random, job: dict[str, Any]) -> bytes:
    del job[dice.choice(["class", "args", "jid", "queue", "created_at"])]
    return json.dumps(job).encode()


def _other_json(dice: random.Random, job: dict[str, Any]) -> bytes:
    return json.dumps(dice.choice([[job], str(job), job["number"], [job["number"]], {"job": job}])).encode()


def _beyond_json(dice: random.Random, job: dict[str, Any]) -> bytes:
    raw = json.dumps(job)
    odd = dice.choice(
        ["NaN", "1e999", "-Infinity", '"\\ud800"', "[" * 5_000, "9" * 5_000, '"\\u0000"', "{" * 60 + "}" * 60]
    )
    return raw.replace(f'"args": [{job["number"]}]', f'"args": [{odd}]').encode()


ODD_VALUES: list[object] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    "",
    "x" * 300,
    "no such job",
    [],
    [[]],
    [1, 2, 3, 4],
    {},
    {"a": 1},
    "\x00",
    "ü",
]
WRONGS: list[Callable[[random.Random, dict[str, Any]], bytes]] = [
    _bytes,
    _cut,
    _bent,
    _other_value,
    _without,
    _other_json,
    _beyond_json,
]
