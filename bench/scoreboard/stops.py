"""A worker is stopped while its jobs do not end."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from subprocess import TimeoutExpired

from bench.scoreboard.environment import Environment, Fleet
from bench.scoreboard.row import Report, row
from bench.scoreboard.stuck import ALL_KINDS, ENDS_ITSELF, REACHED, SOME_KINDS
from bench.servers import Server
from offsider import Client
from tests.process.workers import Worker
from tests.waiting import wait_for

TIMEOUT_SECONDS = 1
GRACE_SECONDS = 4


@row(
    "R25",
    "11 jobs hang in different ways: Python code, sleep, a child, sockets, a queue, a lock, C code that keeps the "
    "GIL, a bare except, a finally, a coroutine; some reach their `hard_timeout`, others a TERM",
    bar="limit: each fails with HardTimeout, and a process with an unreachable thread exits; TERM: each process exits "
    "before timeout + 4 s (C code: + its duration), each job is interrupted where CPython can; all run again, lost 0",
)
def honest_interrupts(env: Environment, report: Report) -> None:
    server = env.server()
    client = env.client(server.url)
    fleet = env.workers(server.url)
    limited = hang_beyond_limit(env, report, fleet, server)
    env.ledger.clear()
    stopped = hang_at_a_stop(env, report, fleet, client)
    for member in server.raw.zrange("retry", 0, -1):
        server.raw.zadd("retry", {member: 1})
    fleet.start("-c", "4", *(word for kind in ALL_KINDS for word in ("-q", kind)))
    env.finish(report, [*limited, *stopped], server)


def hang_beyond_limit(env: Environment, report: Report, fleet: Fleet, server: Server) -> list[str]:
    """Run jobs with a hard limit of a second; return their jids."""
    kinds: Sequence[str] = env.pick(smoke=SOME_KINDS, full=ALL_KINDS)
    client = env.client(server.url)
    workers = start_one_each(fleet, kinds)
    jids = {kind: push_stuck(client, kind, hard_timeout=1) for kind in kinds}
    wait_for(lambda: env.ledger.size("stuck") == len(kinds), 60, "every job hangs")

    def failed() -> dict[str, str]:
        found = [json.loads(raw) for raw in server.raw.zrange("retry", 0, -1)]
        return {job["jid"]: job["error_class"] for job in found}

    with suppress(AssertionError):  # what is missing is counted
        wait_for(lambda: len(failed()) == len(kinds), 30)
    classes = failed()
    wrong = [kind for kind, jid in jids.items() if not classes.get(jid, "").endswith("HardTimeout")]
    report.count(f"failed with HardTimeout; not: {wrong}", not wrong)
    for kind in (kind for kind in kinds if kind not in ENDS_ITSELF):
        with suppress(AssertionError):
            wait_for(lambda kind=kind: workers[kind].runs == (kind in REACHED), 15)  # type: ignore[misc]
    ended = {kind for kind, worker in workers.items() if not worker.runs} - ENDS_ITSELF
    report.count(f"processes that ended: {sorted(ended)}", ended == {*kinds} - REACHED - ENDS_ITSELF)
    for worker in workers.values():
        if worker.runs:
            worker.kill()
    return [*jids.values()]


def hang_at_a_stop(env: Environment, report: Report, fleet: Fleet, client: Client) -> list[str]:
    """Run jobs that hang at TERM; return their jids."""
    workers = start_one_each(fleet, ALL_KINDS)
    jids = [push_stuck(client, kind) for kind in ALL_KINDS]
    wait_for(lambda: env.ledger.size("stuck") == len(workers), 60, "every job hangs")
    started = time.monotonic()
    for worker in workers.values():
        worker.send("TERM")
    late: list[str] = []
    slack_seconds = env.pick(smoke=6.0, full=0.0)  # in tier smoke, other rows use the same cores
    for kind, worker in workers.items():
        allowed = started + TIMEOUT_SECONDS + GRACE_SECONDS + (12 if kind == "c_code" else 0) + slack_seconds
        try:
            worker.process.wait(max(0.01, allowed - time.monotonic()))
        except TimeoutExpired:
            late.append(kind)
    report.count(f"at TERM every process ends in time; late: {late}", not late)
    interrupted = set(env.ledger.counts("interrupted"))
    report.count(f"at TERM interrupted where possible; not: {REACHED - interrupted}", interrupted >= REACHED)
    report.figure("interrupted at TERM", " ".join(sorted(interrupted)))
    report.figure("requeued while they hang", " ".join(sorted({*ALL_KINDS} - interrupted)))
    return jids


def start_one_each(fleet: Fleet, kinds: Sequence[str]) -> dict[str, Worker]:
    """Start a process for each way to hang; it serves the queue of that name."""
    options = ("-c", "1", "-t", str(TIMEOUT_SECONDS))
    return {kind: fleet.start(*options, "-q", kind, wait=False) for kind in kinds}


def push_stuck(client: Client, kind: str, **options: object) -> str:
    job: dict[str, object] = {"class": "scoreboard.Stuck", "args": [kind], "queue": kind, **options}
    if kind == "asyncio":
        job |= {"class": "scoreboard.StuckAsync", "args": []}
    return str(client.push(job))


@row(
    "R26",
    "a stop as in Kubernetes: TERM while a job of 40 s runs, KILL after 30 s, default timeout of 25 s",
    bar="exits < 26 s and before the KILL; the job is back in its queue, interrupted_count 1; lost 0",
)
def pod_is_stopped(env: Environment, report: Report) -> None:
    timeout, kill_after = env.pick(smoke=(2, 12.0), full=(25, 30.0))
    server = env.server()
    client = env.client(server.url)
    fleet = env.workers(server.url)
    worker = fleet.start("-c", "2", "-t", str(timeout))
    jid = str(client.push({"class": "scoreboard.Stuck", "args": ["python"]}))
    wait_for(lambda: env.ledger.size("stuck") == 1)
    started = time.monotonic()
    worker.send("TERM")
    killed = False
    try:
        worker.process.wait(kill_after)
    except TimeoutExpired:
        killed = True
        worker.kill()
    seconds = time.monotonic() - started
    report.count("it ends before the KILL", not killed)
    report.count(f"exit code 0, got {worker.process.returncode}", worker.process.returncode == 0)
    report.within("ended after", seconds, timeout + 1)
    waiting = [json.loads(raw) for raw in server.raw.lrange("queue:default", 0, -1)]
    back = [job.get("interrupted_count") for job in waiting if job["jid"] == jid]
    report.count(f"requeued with interrupted_count 1: {back}", back == [1])
    fleet.start("-c", "2")
    env.finish(report, [jid], server)
