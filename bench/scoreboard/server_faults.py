"""The server dies or freezes, its memory is full, its disk is slow, or the network loses what it sends."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from bench.compare.machine import memory_mb
from bench.scoreboard.clocks import Ticking, every_other_second
from bench.scoreboard.environment import LIVENESS_SECONDS, Environment, fences
from bench.scoreboard.pusher import Pusher
from bench.scoreboard.row import Report, Tally, row
from bench.scoreboard.stored_jobs import StoredJobs, jids
from bench.servers import Server
from offsider import Client, QueueFull, RedisUnavailable
from offsider.core.payload import new_jid
from offsider.embedded.server import find_server_binary
from tests.waiting import wait_for

THREADS, PROCESSES = 4, 2
REFUSED_PUSHES = 20
MAX_GROWTH_MB = 20
#: Contained in every claim and every outcome, and in no push.
PRIVATE_LIST = b"offsider:working:"
SLOW_DISK = Path(__file__).with_name("slow_disk.c")
PRODUCERS = 4
EVERYSEC_MS = 1_500
ALWAYS_MS = 30
#: Redis delays a write for up to two seconds while a sync is under way; the rest is a margin for a busy machine.
OPEN_SECONDS = 3.0


@row(
    "R3",
    "the server (AOF, `everysec`) is killed and restarted every 2 s while 2 processes of 4 threads drain a queue",
    bar="lost 0; duplicates <= kills x (jobs/s at the kill x 20 ms + threads); resumes < 3 s; dead threads 0",
)
def server_killed(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=3_000, full=60_000)
    server = env.server()
    client = env.client(server.url)
    acked = env.push(client, jobs, ms=2)
    fleet = env.workers(server.url)
    fleet.start_all(PROCESSES, "-c", str(THREADS))
    resumed: list[float] = []
    repeatable: list[int] = []

    def kill(_number: int) -> None:
        repeatable.append(env.max_repeated(THREADS * PROCESSES))
        server.kill()
        server.start_again()
        resumed.append(env.seconds_to_resume(jobs))

    kills = env.repeat(kill, jobs, slices=5, seconds=2.0)
    env.finish(report, acked, server)
    report.at_most("duplicates", report.tally.duplicated, sum(repeatable))
    report.figure("kills", kills)
    report.within("slowest resume", max(resumed, default=0.0), 3)
    fleet.judge_alive(report, client, server, THREADS * PROCESSES)


@row(
    "R4",
    "the server without persistence is killed twice, and restarts empty",
    bar="no worker exits; processes register again < 10 s; new jobs run; dead threads 0; the number of jobs that the "
    "server forgot is reported; periodic jobs continue, each tick once",
)
def server_forgets(env: Environment, report: Report) -> None:
    server = env.server(persist=False)
    client = env.client(server.url)
    ticking = Ticking(env.folder / "ticking", every_other_second)
    fleet = env.workers(server.url)
    fleet.start_all(PROCESSES, "-c", str(THREADS), **ticking.environ)
    forgotten = 0
    for _ in range(2):
        doomed = env.push(client, 200, ms=20)
        wait_for(lambda: env.ledger.size() >= 20)
        server.kill()
        server.start_again()
        started = time.monotonic()
        wait_for(lambda: registered(server) == PROCESSES, 40, "every process registers again")
        report.timed("processes register again < 10 s", time.monotonic() - started < 10)
        forgotten += len(set(doomed) - env.ledger.counts().keys())
        env.ledger.clear()
    back_at = time.time()
    acked = env.push(client, env.pick(smoke=200, full=2_000), ms=1)
    env.finish(report, acked, server)
    report.nothing("duplicates", report.tally.duplicated)
    ticking.judge(env.ledger, report, "ticks after the restart", back_at, time.time() + env.pick(smoke=8, full=30))
    fleet.judge_alive(report, client, server, THREADS * PROCESSES)
    report.figure("jobs that the server lost", forgotten)


def registered(server: Server) -> int:
    """Count the processes that are in Sidekiq's registry with their hash, and registered as owners."""
    names = server.raw.smembers("processes")
    return sum(1 for name in names if server.raw.exists(name) and server.raw.hexists("offsider:owners", name))


@row(
    "R11",
    "50,000 jobs are queued, one in 50 fails; then `maxmemory` is set below the used memory, under `noeviction`",
    bar="pushes raise QueueFull; the drain continues to 0; every failed job is kept for its retry; no worker declared "
    "dead",
)
def full_server(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=3_000, full=50_000)
    server = env.server(persist=False, maxmemory_policy="noeviction")
    client = env.client(server.url)
    failing = env.push(client, jobs // 50, name="scoreboard.Failing")
    acked = env.push(client, jobs)
    server.raw.config_set("maxmemory", "100kb")
    refused = sum(is_refused(client) for _ in range(REFUSED_PUSHES))
    report.count(f"QueueFull {REFUSED_PUSHES}, got {refused}", refused == REFUSED_PUSHES)

    started = time.monotonic()
    fleet = env.workers(server.url)
    fleet.start_all(PROCESSES, "-c", str(THREADS))
    env.ledger.until(jobs, quiet_seconds=30)
    env.ledger.until(len(failing), quiet_seconds=10, table="failed")
    seconds = time.monotonic() - started
    time.sleep(max(0.0, 4 * LIVENESS_SECONDS - seconds))  # long enough to be declared dead
    env.finish(report, acked, server)
    report.nothing("duplicates", report.tally.duplicated)
    kept = set(failing) & {*StoredJobs.of(server.raw).waiting}
    report.count(f"retries kept {len(failing)}, got {len(kept)}", len(kept) == len(failing))
    report.nothing("workers declared dead", fences(server))
    report.count("no worker has ended", len(fleet.running) == PROCESSES)
    server.raw.config_set("maxmemory", "0")
    report.count("a push succeeds once memory is free again", not is_refused(client))
    report.figure("jobs/s on the full server", round(jobs / seconds))


def is_refused(client: Client) -> bool:
    """Return whether a push raises QueueFull; any other error fails the row."""
    try:
        client.push({"class": "scoreboard.Work", "args": []})
    except QueueFull:
        return True
    return False


@row(
    "R7",
    "for 30 s a black hole between workers and server drops all data in both directions; later the server is frozen "
    "for 30 s",
    bar="lost 0; no worker declared dead; dead threads 0; RSS flat; the drain resumes < 5 s afterwards",
)
def black_hole(env: Environment, report: Report) -> None:
    silence_seconds = env.pick(smoke=3.0, full=30.0)
    jobs = env.pick(smoke=1_500, full=20_000)
    server = env.server()
    proxy, client = env.proxy(server.url), env.client(server.url)
    acked = env.push(client, jobs, ms=5)
    fleet = env.workers(proxy.url)
    pair = fleet.start_all(PROCESSES, "-c", str(THREADS))
    wait_for(lambda: env.ledger.size() > jobs * 0.1)
    before = sum(memory_mb(worker.pid)[0] for worker in pair)
    for what, share, cut, mend in (
        ("black hole", 0.1, proxy.black_hole, proxy.release),
        ("frozen server", 0.4, server.freeze, server.thaw),
    ):
        env.ledger.until(round(jobs * share), quiet_seconds=60)
        cut()
        time.sleep(silence_seconds)
        mend()
        report.within(f"resumed after {what}", env.seconds_to_resume(jobs), 5)
    env.finish(report, acked, server)
    growth = sum(memory_mb(worker.pid)[0] for worker in pair) - before
    report.count(f"RSS grows by < {MAX_GROWTH_MB} MB: {growth:.1f}", growth < MAX_GROWTH_MB)
    fleet.judge_alive(report, client, server, THREADS * PROCESSES)


@row(
    "R8",
    "every connection between workers and server is reset every 1 to 3 s, for 60 s",
    bar="lost 0; duplicates counted; dead threads 0; no worker declared dead",
)
def resets(env: Environment, report: Report) -> None:
    server = env.server()
    proxy, client = env.proxy(server.url), env.client(server.url)
    fleet = env.workers(proxy.url)
    fleet.start_all(PROCESSES, "-c", str(THREADS))
    acked: list[str] = []
    shortest, longest = env.pick(smoke=(0.3, 0.9), full=(1.0, 3.0))
    count, deadline = 0, time.monotonic() + env.pick(smoke=6.0, full=60.0)
    while time.monotonic() < deadline:
        pause_until = time.monotonic() + env.dice.uniform(shortest, longest)
        while time.monotonic() < pause_until:
            acked += env.feed(server, client, 200, ms=3)
            time.sleep(0.05)
        proxy.reset()
        count += 1
    env.finish(report, acked, server)
    fleet.judge_alive(report, client, server, THREADS * PROCESSES)
    report.figure("resets", count)


@row(
    "R9",
    "the reply to a push is lost, 1,000 times; then each caller pushes the same payload again",
    bar="every push raises an ambiguous error; duplicates stored 0; those of the second push are counted",
)
def push_reply_lost(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=200, full=1_000)
    server = env.server()
    proxy = env.proxy(server.url)
    client = env.client(proxy.url)
    payloads: dict[str, dict[str, object]] = {
        jid: {"class": "scoreboard.Work", "args": [number], "jid": jid}
        for number, jid in enumerate(new_jid() for _ in range(jobs))
    }
    errors = 0
    for payload in payloads.values():
        proxy.lose_reply(b"scoreboard.Work")
        try:
            client.push(payload)
        except RedisUnavailable as error:
            errors += error.ambiguous
    stored = jids(server.raw.lrange("queue:default", 0, -1))
    report.count(f"errors {jobs}, got {errors}", errors == jobs)
    report.nothing("stored twice", len(stored) - len(set(stored)))
    report.count(f"stored {jobs}, got {len(set(stored))}", len(set(stored)) == jobs)

    for payload in payloads.values():
        client.push(payload)
    env.workers(server.url).start("-c", str(THREADS))
    env.ledger.until(jobs, quiet_seconds=20)
    wait_for(lambda: not server.raw.llen("queue:default"), 120)
    env.finish(report, [*payloads], server, pushed=2 * jobs)
    report.figure("errors", errors)
    report.figure("duplicates when callers push again", report.tally.duplicated)


@row(
    "R10",
    "the reply to a claim or to an outcome is lost, 1,000 times",
    bar="stranded 0 after one heartbeat; lost 0; no worker declared dead",
)
def claim_or_outcome_reply_lost(env: Environment, report: Report) -> None:
    faults = env.pick(smoke=40, full=1_000)
    server = env.server()
    proxy, client = env.proxy(server.url), env.client(server.url)
    worker = env.workers(proxy.url).start("-c", str(THREADS))
    acked: list[str] = []
    deadline = time.monotonic() + env.pick(smoke=90, full=2_400)
    planned = 0
    while proxy.lost < faults and time.monotonic() < deadline:
        acked += env.feed(server, client, 50, ms=2)
        if planned == proxy.lost and planned < faults:
            time.sleep(env.dice.uniform(0.0, 0.02))  # so that faults hit both claims and outcomes
            proxy.lose_reply(PRIVATE_LIST)
            planned += 1
        time.sleep(0.005)
    env.finish(report, acked, server)
    report.count(f"replies lost {faults}, got {proxy.lost}", proxy.lost == faults)
    report.count("the worker still runs", worker.runs)
    report.nothing("workers declared dead", fences(server))
    report.figure("replies lost", proxy.lost)


@row(
    "R32",
    "the server is killed (`kill -9`) repeatedly during pushes while its disk is slow (each `fdatasync` takes 1.5 s "
    "with `appendfsync everysec`, 30 ms with `always`), and restarted",
    bar="`always`: lost 0; `everysec`: only pushes that were acknowledged in the 3 s before a kill are lost, and their "
    "number is reported",
)
def slow_disk(env: Environment, report: Report) -> None:
    binary = slow_server(env.folder)
    if binary is None:
        report.skipped = "needs gcc and Linux with LD_PRELOAD"
        return
    report.tally, _ = push_under_kills(env, binary, "always", ALWAYS_MS)
    report.nothing_missing()
    tally, early = push_under_kills(env, binary, "everysec", EVERYSEC_MS)
    report.nothing(f"everysec: lost although acknowledged > {OPEN_SECONDS:g} s before a kill", early)
    report.nothing("everysec: buried, stranded or left", tally.buried + tally.stranded + tally.left)
    report.figure("everysec", f"{tally.acked:,} acked, {tally.lost:,} lost")


def slow_server(folder: Path) -> Path | None:
    """Build a server program whose syncs take ``SLOW_DISK_MS`` longer; None if that is not possible."""
    compiler = shutil.which("gcc")
    if compiler is None or not Path("/proc/self").exists():
        return None
    library, program = folder / "slow_disk.so", folder / "slow-server"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SLOW_DISK, "-ldl"], check=True)
    program.write_text(f'#!/bin/sh\nLD_PRELOAD={library} exec {find_server_binary()} "$@"\n')
    program.chmod(0o700)
    return program


def push_under_kills(env: Environment, binary: Path, fsync: str, slow_ms: int) -> tuple[Tally, int]:
    """Kill a server with a slow disk repeatedly during pushes; return the results of the jobs, and how many were lost
    although they were acknowledged long before a kill.
    """
    os.environ["SLOW_DISK_MS"] = str(slow_ms)
    server = env.server(binary=binary, appendfsync=fsync)
    pushers = [Pusher(env.client(server.url), pause_seconds=0.001) for _ in range(PRODUCERS)]
    kills: list[tuple[float, float]] = []
    for _ in range(env.pick(smoke=2, full=9)):
        time.sleep(env.dice.uniform(2.0, 4.0))
        began = time.monotonic()
        server.kill()
        kills.append((began, time.monotonic()))
        server.start_again()
    time.sleep(1)
    for pusher in pushers:
        pusher.stop()
    acked = {jid: push for pusher in pushers for jid, push in pusher.acked.items()}
    before, waiting = env.ledger.size(), int(server.raw.llen("queue:default"))
    fleet = env.workers(server.url)
    fleet.start("-c", str(THREADS))
    env.ledger.until(before + waiting, quiet_seconds=20)
    env.settled(server)
    fleet.stop()
    lost = acked.keys() - env.ledger.counts().keys()
    early = [jid for jid in lost if not any(may_be_lost(acked[jid], kill) for kill in kills)]
    return env.tally([*acked], server), len(early)


def may_be_lost(push: tuple[float, float], kill: tuple[float, float]) -> bool:
    """Return whether a push, by start and end, is so close to a kill that it need not be on the disk."""
    return push[0] <= kill[1] and push[1] >= kill[0] - OPEN_SECONDS
