"""Workers are killed or stopped while they run jobs, by others, by their machine, or by a job."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from statistics import quantiles

from bench.compare.machine import tree
from bench.scoreboard.environment import Environment, Fleet
from bench.scoreboard.row import Report, row
from bench.scoreboard.stored_jobs import entries
from bench.servers import Server
from tests.waiting import wait_for

THREADS = 4
PILL_MS = 60
MAX_PILL_RUNS = 3
#: A job that repeats this often is no longer observed.
GIVE_UP_RUNS = 12
SWEEPERS = 8


@row(
    "R1",
    "2 processes of 4 threads drain a queue; one is killed (`kill -9`) and restarted: each second with jobs of 2 ms, "
    "after each eighth of no-op jobs, and of no-op jobs with a round trip of 1 ms to the server",
    bar="lost 0; duplicates <= kills x (jobs/s at the kill x 20 ms + threads); "
    "no-op jobs > 3,000 jobs/s, also with the round trip (with jobs of 2 ms, the rate is reported: 8 threads reach "
    "4,000/s at most)",
    heavy=True,
)
def killed_workers(env: Environment, report: Report) -> None:
    server = env.server()
    acked, repeatable, seconds = drain_under_kills(env, server, server.url, env.pick(smoke=2_500, full=100_000), ms=2)
    env.finish(report, acked, server)
    report.at_most("duplicates", report.tally.duplicated, sum(repeatable))
    report.figure("kills", len(repeatable))
    report.figure("jobs/s", round(len(acked) / seconds))

    kill_amid_no_ops(env, report, server, server.url, "no-ops")
    kill_amid_no_ops(env, report, server, env.delayed_url(server.url, rtt_ms=1), "no-ops, 1 ms away")


def kill_amid_no_ops(env: Environment, report: Report, server: Server, url: str, what: str) -> None:
    """Run a backlog with workers that use ``url``; each kill may repeat jobs that are not acknowledged yet."""
    env.ledger.clear()
    acked, repeatable, seconds = drain_under_kills(env, server, url, env.pick(smoke=12_000, full=100_000), ms=0)
    tally = env.tally(acked, server)
    report.nothing(f"{what}: lost", tally.acked - tally.ran)
    report.at_most(f"{what}: duplicates", tally.duplicated, sum(repeatable))
    rate = len(acked) / seconds
    report.timed(f"{what}: > 3,000 jobs/s: {rate:,.0f}", rate > 3_000)
    report.figure(what, f"{len(acked):,}, kills {len(repeatable)}, duplicated {tally.duplicated}, {rate:,.0f}/s")


def drain_under_kills(
    env: Environment, server: Server, url: str, jobs: int, *, ms: float
) -> tuple[list[str], list[int], float]:
    """Push and run jobs with workers that use ``url``.

    Returns:
        the jids, how many finished jobs each kill may repeat, and the seconds.
    """
    fleet = env.workers(url)
    pair = fleet.start_all(2, "-c", str(THREADS))
    repeatable: list[int] = []
    started = time.monotonic()
    acked = env.push(env.client(server.url), jobs, ms=ms)

    def kill(number: int) -> None:
        repeatable.append(env.max_repeated(THREADS))
        fleet.restart(pair, number, "-c", str(THREADS))

    env.repeat(kill, jobs, slices=env.pick(smoke=4, full=8), seconds=1.0 if ms else 0)
    env.ledger.until(jobs, quiet_seconds=30)
    seconds = time.monotonic() - started
    env.settled(server)
    fleet.close()
    return acked, repeatable, seconds


@row(
    "R2",
    "2 processes of 4 threads run jobs of 50 to 500 ms; one gets TERM every 2 s and is replaced",
    bar="lost 0; duplicates 0, since every job fits the timeout",
)
def rolling_restart(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=80, full=900)
    server = env.server()
    acked = env.push_args(env.client(server.url), [[number, env.dice.randint(50, 500)] for number in range(jobs)])
    fleet = env.workers(server.url)
    options = ("-c", str(THREADS), "-t", "10")
    pair = [fleet.start(*options, wait=False) for _ in range(2)]

    def stop(number: int) -> None:
        pair[number % 2].until_running()
        pair[number % 2].send("TERM")
        pair[number % 2] = fleet.start(*options, wait=False)

    stops = env.repeat(stop, jobs, slices=5, seconds=2.0)
    env.finish(report, acked, server)
    report.nothing("duplicates", report.tally.duplicated)
    wait_for(lambda: len(fleet.running) == 2)
    codes = {worker.process.returncode for worker in fleet.all if not worker.runs}
    report.count(f"every stopped worker ends with code 0: {codes}", codes <= {0})
    report.figure("stops", stops)


@row(
    "R12",
    "a job that kills its process by SIGKILL runs among 1,000 good jobs, each of which takes longer; 2 processes of 4"
    " threads below a parent",
    bar="the poison pill runs <= 3 times and moves to the dead set with the reason; its callback runs once; good jobs "
    "lost 0, buried 0",
)
def poison_pill(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=60, full=1_000)
    server = env.server()
    client = env.client(server.url)
    innocents = [[number, env.dice.randint(2 * PILL_MS, 5 * PILL_MS)] for number in range(jobs)]
    acked = env.push_args(client, innocents[: jobs // 2])
    pill = client.push({"class": "scoreboard.Pill", "args": [PILL_MS], "retry": False, "dead": False})
    acked += env.push_args(client, innocents[jobs // 2 :])
    parent = env.workers(server.url).start("-c", str(THREADS), "--processes", "2")

    def runs() -> int:
        return env.ledger.get("pill", str(pill))

    with suppress(AssertionError):  # missing runs are counted below
        wait_for(
            lambda: runs() >= GIVE_UP_RUNS or (env.ledger.size() >= jobs and server.raw.zcard("dead")),
            env.pick(smoke=60, full=400),
        )
    env.ledger.until(1, quiet_seconds=3, table="poisoned")  # death handlers and events run after the move

    report.tally = env.tally(acked, server)
    report.nothing_missing()
    report.count("the parent still runs", parent.runs)
    report.at_most("pill runs", runs(), MAX_PILL_RUNS)
    dead = [json.loads(raw) for raw in server.raw.zrange("dead", 0, -1)]
    reasons = [job.get("error_message", "") for job in dead if job["jid"] == pill]
    report.count(f"the pill is in the dead set with the reason: {reasons}", len(reasons) == 1 and all(reasons))
    calls = env.ledger.get("poisoned", str(pill))
    report.count(f"its callback fires once, got {calls}", calls == 1)
    report.figure("pill runs", runs())
    report.figure("good jobs that ran twice", report.tally.duplicated)


@row(
    "R29",
    "the machines of 1,000 running jobs fail; 8 processes sweep at once. Then the same, and 4 of the 8 are killed "
    "while they reclaim the jobs",
    bar="lost 0; every job is requeued once; with kills: lost 0, duplicates <= kills x threads",
    heavy=True,
)
def orphan_race(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=150, full=1_000)
    server = env.server()
    fleet = env.workers(server.url)
    acked = make_orphans(env, fleet, server, jobs)
    sweepers = [fleet.start("-c", "2", wait=False) for _ in range(SWEEPERS)]
    started = time.monotonic()
    env.ledger.until(jobs, quiet_seconds=30)
    report.figure("seconds until all ran", time.monotonic() - started)
    env.finish(report, acked, server)
    report.nothing("duplicates", report.tally.duplicated)
    report.nothing("requeued twice", env.ledger.size("again"))

    for worker in sweepers:
        worker.kill()
    env.ledger.clear()
    acked = make_orphans(env, fleet, server, jobs)
    sweepers = [fleet.start("-c", "2", wait=False) for _ in range(SWEEPERS)]
    wait_for(lambda: env.ledger.size() > 0, 60)
    for worker in sweepers[:4]:
        worker.kill()
    env.ledger.until(jobs, quiet_seconds=30)
    env.settled(server)
    tally = env.tally(acked, server)
    report.nothing("with kills: lost", tally.acked - tally.ran)
    report.at_most("with kills: duplicates", tally.duplicated, 8)
    report.figure("duplicated with kills", tally.duplicated)


def make_orphans(env: Environment, fleet: Fleet, server: Server, jobs: int) -> list[str]:
    """Start jobs in two processes, and kill these at once, as if their machine died; return the jids."""
    acked = env.push(env.client(server.url), jobs, name="scoreboard.Hold")
    workers = [fleet.start("-c", str(jobs // 2), wait=False) for _ in range(2)]
    wait_for(lambda: len(entries(server.raw)) == jobs and env.ledger.size("held") >= jobs * 0.9, 60)
    doomed = [pid for worker in workers for pid in tree(worker.parent)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them can react to the death of another one
        for pid in doomed:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    for worker in workers:
        worker.process.wait()
    return acked


@row(
    "R38",
    "a worker is killed (`kill -9`) while it runs a job, every other time after its process was stopped (SIGSTOP)",
    bar="the job is back in its queue: p50 < 0.3 s, p99 < 1 s",
)
def requeue_times(env: Environment, report: Report) -> None:
    server = env.server()
    fleet = env.workers(server.url, OFFSIDER_WORKER_MAX_STRIKES="0")
    acked = env.push(env.client(server.url), 1, ms=60_000)
    seconds: list[float] = []
    for number in range(env.pick(smoke=6, full=100)):
        worker = fleet.start("-c", "1")
        wait_for(lambda: server.raw.llen("queue:default") == 0)
        pid = worker.pid
        if number % 2:
            os.kill(pid, signal.SIGSTOP)
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: server.raw.llen("queue:default") == 1)
        seconds.append(time.monotonic() - killed_at)
        worker.kill()
    report.tally = env.tally(acked, server)
    report.nothing("lost", report.tally.lost)
    cuts = quantiles(seconds, n=100, method="inclusive")
    report.within("p50", cuts[49] * 1000, 300, "ms")
    report.within("p99", cuts[98] * 1000, 1_000, "ms")
