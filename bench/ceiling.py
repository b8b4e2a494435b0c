"""Jobs of 10 ms at concurrency 100: a worker beside bare threads and bare coroutines that do the same without Redis.

    python3 dev.py bench ceiling --rounds 7
    python3 dev.py bench ceiling --rounds 7 --rtt 1      # the worker has a round trip of 1 ms to its server

1. The bare threads decode the payload of each job, look up its function and call it, as the worker does. They have
   neither server, middleware, log nor time limits: no worker with threads can be faster on this machine.
2. A job records its start and end in a mapped file, and sleeps in between.
3. The kinds take turns; a ratio is the median of the ratios within a round. The rate is that of the middle 80 %.

The aims: the worker reaches 95 % of the bare threads, and with coroutines 95 % of the 10,000 jobs per second that 100
jobs of 10 ms allow. The exit code is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from bench import load
from bench.compare.delay import DelayProxy
from bench.slots import Slots
from offsider import Client, Config
from offsider.embedded import EmbeddedServer

JOB_MS, CONCURRENCY = 10.0, 100
IDEAL = CONCURRENCY / JOB_MS * 1000
#: Threads of the worker that runs coroutines; the other coroutines have seats of their own.
THREADS = 10
BARE_THREADS, WORKER_THREADS = "bare threads", "worker, threads"
BARE_COROUTINES, WORKER_COROUTINES = "bare coroutines", "worker, coroutines"
KINDS = (BARE_THREADS, WORKER_THREADS, BARE_COROUTINES, WORKER_COROUTINES)
AIM = 0.95


def main() -> int:
    """Print the jobs per second of each kind, and the two shares with their aims."""
    parser = argparse.ArgumentParser(prog="dev.py bench ceiling", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rtt", type=float, default=0, help="round trip between worker and server, in ms")
    parser.add_argument("--bare", choices=("threads", "coroutines"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        return bare_threads() if options.bare == "threads" else bare_coroutines()
    rounds: list[dict[str, float]] = []
    for number in range(options.rounds):
        first = number % len(KINDS)
        rounds.append({kind: measure(options, kind) for kind in (*KINDS[first:], *KINDS[:first])})
        print(f"round {number + 1}  " + "  ".join(f"{kind} {rounds[-1][kind]:,.0f}" for kind in KINDS), flush=True)
    return report(rounds)


def report(rounds: Sequence[Mapping[str, float]]) -> int:
    """Print the medians and the shares; return 1 if an aim is missed."""
    for kind in KINDS:
        print(f"{kind:<22}{statistics.median(figures[kind] for figures in rounds):>10,.0f} jobs/s")
    shares = {
        "threads: share of bare threads": [figures[WORKER_THREADS] / figures[BARE_THREADS] for figures in rounds],
        f"coroutines: share of {IDEAL:,.0f}/s": [figures[WORKER_COROUTINES] / IDEAL for figures in rounds],
    }
    missed = 0
    for what, values in shares.items():
        share = statistics.median(values)
        missed += share < AIM
        print(f"{'pass' if share >= AIM else 'fail':<6}{share:>7.3f}  >= {AIM}  {what}")
    return 1 if missed else 0


def measure(options: argparse.Namespace, kind: str) -> float:
    """Return the jobs per second of one kind."""
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as name:
        folder = Path(name)
        slots = Slots(folder / "slots", options.jobs)
        if kind in (BARE_THREADS, BARE_COROUTINES):
            run_bare(folder, kind, options.jobs)
        else:
            run_worker(folder, kind, options.jobs, options.rtt, slots)
        return load.middle_rate(slots.read())


def job_of(kind: str) -> str:
    return "bench.anoop" if kind in (BARE_COROUTINES, WORKER_COROUTINES) else "bench.noop"


def run_bare(folder: Path, kind: str, jobs: int) -> None:
    client = Client(Config())
    with (folder / "payloads").open("wb") as file:
        for number in range(jobs):
            prepared = client.prepare(client.build({"class": job_of(kind), "args": [number, "two", 3]}))
            file.write((prepared.raw if prepared else b"") + b"\n")
    environ = {
        "OFFSIDER_BENCH_SLOTS": str(folder / "slots"),
        "OFFSIDER_BENCH_JOB_MS": str(JOB_MS),
        "OFFSIDER_BENCH_PAYLOADS": str(folder / "payloads"),
    }
    command = [sys.executable, "-m", "bench.ceiling", "--bare", kind.removeprefix("bare ")]
    subprocess.run(command, cwd=load.ROOT, env=os.environ | environ, check=True)


def run_worker(folder: Path, kind: str, jobs: int, rtt_ms: float, slots: Slots) -> None:
    threads = THREADS if kind == WORKER_COROUTINES else CONCURRENCY
    options = argparse.Namespace(concurrency=threads, job_ms=JOB_MS, log_level="warn")
    environ = {"OFFSIDER_WORKER_ASYNC_CONCURRENCY": str(CONCURRENCY - THREADS)}
    with EmbeddedServer(folder / "server", port=0, persist=False) as server:
        config = Config()
        config.redis.url = server.url
        Client(config).push_bulk({"class": job_of(kind), "args": ([number, "two", 3] for number in range(jobs))})
        with DelayProxy(server.url, rtt_ms=rtt_ms) if rtt_ms else nullcontext(server) as reached:
            worker = load.start_worker(options, folder, reached.url, environ)
            try:
                load.wait_for_all(slots, jobs)
            finally:
                worker.terminate()
                worker.wait(timeout=60)


def bare_threads() -> int:
    from bench import load_app

    functions = {"bench.noop": load_app.noop}
    payloads = deque(Path(os.environ["OFFSIDER_BENCH_PAYLOADS"]).read_bytes().splitlines())

    def run() -> None:
        while True:
            try:
                raw = payloads.popleft()
            except IndexError:
                return
            payload = json.loads(raw)
            functions[payload["class"]](*payload["args"])

    threads = [threading.Thread(target=run) for _ in range(CONCURRENCY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


def bare_coroutines() -> int:
    from bench import load_app

    functions = {"bench.anoop": load_app.anoop}
    payloads = deque(Path(os.environ["OFFSIDER_BENCH_PAYLOADS"]).read_bytes().splitlines())

    async def run() -> None:
        while payloads:
            payload = json.loads(payloads.popleft())
            await functions[payload["class"]](*payload["args"])

    async def run_all() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(run())

    asyncio.run(run_all())
    return 0


if __name__ == "__main__":
    sys.exit(main())
