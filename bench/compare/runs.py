"""The measurements. Each is one run on its own server and returns its figures by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from bench.compare.bench import BOOT_SECONDS, Bench, Broken, bench, wait_for_all, wait_until
from bench.compare.contestant import Contestant
from bench.compare.ledger import Ledger, lags_ms, rate_of
from bench.compare.machine import Look, cpu_seconds, look, memory_mb, others_cores, proxy_cores, tree
from bench.compare.stats import quantile
from bench.compare.workers import Workers

Figures = Mapping[str, float]

QUEUED = 10_000
KILL_JOBS = 200
KILL_JOB_MS = 50


def drain(
    contestant: Contestant,
    programs: Path,
    *,
    jobs: int,
    concurrency: int = 10,
    processes: int = 1,
    job_ms: float = 0,
    pinned: bool = False,
    log: str = "warn",
    rtt_ms: float | None = None,
) -> Figures:
    """Run a backlog of jobs: measure the rate, and the cost per job."""
    with bench(contestant, programs, rtt_ms=rtt_ms) as place:
        ledger = place.ledger(jobs)
        place.produce(ledger, "fill", str(jobs))
        with place.workers(ledger, concurrency=concurrency, job_ms=job_ms, log=log) as workers:
            workers.start_all(processes, pinned=pinned)
            wait_until(ledger.has_begun, workers, seconds=BOOT_SECONDS, poll_seconds=0.002)
            before, counted = place.look(workers), place.server.counters()
            wait_for_all(ledger, workers)
            after, counts = place.look(workers), place.server.counters()
        return _drained(ledger, processes, before, after) | {
            name: (counts[name] - counted[name]) / _ended_after(ledger, before) for name in ("commands", "reads")
        }


def _drained(ledger: Ledger, processes: int, before: Look, after: Look) -> dict[str, float]:
    runs = ledger.runs()
    try:
        rate = rate_of(runs)
    except ValueError as error:
        raise Broken(str(error)) from None
    begun = len({run.process for run in runs if run.start})
    if begun < processes:
        raise Broken(f"{begun} of {processes} processes ran jobs: the run was too short")
    looked_at = _ended_after(ledger, before)
    return {
        "rate": rate.whole,
        "middle": rate.middle,
        "seconds": rate.seconds,
        "jobs": float(ledger.count),
        "worker_us": (after.workers - before.workers) / looked_at * 1e6,
        "server_us": (after.server - before.server) / looked_at * 1e6,
        "lost": float(sum(not run.end for run in runs)),
        "doubled": float(sum(run.starts > 1 for run in runs)),
        "others": others_cores(before, after),
        "proxy_cores": proxy_cores(before, after),
    }


def _ended_after(ledger: Ledger, before: Look) -> int:
    return max(1, sum(run.end > before.at_ns for run in ledger.runs()))


def push(
    contestant: Contestant, programs: Path, *, jobs: int, word: str = "push", rtt_ms: float | None = None
) -> Figures:
    """Push with one producer: measure jobs/s, its CPU, and the server's commands per job."""
    with bench(contestant, programs, rtt_ms=rtt_ms) as place:
        counted, before = place.server.counters(), look([], place.server.pid)
        figures = place.produce(place.ledger(jobs + 100), word, str(jobs), url=place.reached)
        after, counts = look([], place.server.pid), place.server.counters()
        return {
            **figures,
            "jobs": float(jobs),
            "server_us": (after.server - before.server) / jobs * 1e6,
            "commands": (counts["commands"] - counted["commands"]) / jobs,
            "seconds": jobs / figures["rate"],
            "others": others_cores(before, after),
        }


def latency(contestant: Contestant, programs: Path, *, pushes: int, rtt_ms: float | None = None) -> Figures:
    """Measure the time from push to start with an idle worker, in ms."""
    with bench(contestant, programs, rtt_ms=rtt_ms) as place:
        ledger = place.ledger(pushes + 2)
        with place.workers(ledger, concurrency=10) as workers:
            workers.start()
            before = place.look(workers)
            place.produce(ledger, "latency", str(pushes), str(contestant.gap_ms))
            wait_for_all(ledger, workers)
            others = others_cores(before, place.look(workers))
        lags = list(lags_ms(ledger.runs()))
        if len(lags) < pushes + 2:
            raise Broken(f"{pushes + 2 - len(lags)} of {pushes + 2} jobs did not run")
        paced = sorted(lags[1:-1])
        return {"p50": quantile(paced, 0.5), "p99": quantile(paced, 0.99), "silence": lags[-1], "others": others}


def memory(contestant: Contestant, programs: Path, *, seconds: float, rtt_ms: float | None = None) -> Figures:
    """Measure the server's memory for queued jobs; then, on another server, the cost of an idle worker."""
    queued = QUEUED if contestant.has_bulk else QUEUED // 5
    with bench(contestant, programs) as place:
        empty = place.server.counters()["memory"]
        place.produce(place.ledger(queued), "fill", str(queued))
        full = place.server.counters()["memory"]
    with bench(contestant, programs, rtt_ms=rtt_ms) as place:
        ledger = place.ledger(1)
        with place.workers(ledger, concurrency=10) as workers:
            workers.start()
            place.produce(ledger, "fill", "1")
            wait_until(lambda: ledger.done_from_the_start() == 1, workers, seconds=BOOT_SECONDS)
            time.sleep(1.5)
            idle = _idle(place, workers, seconds)
    return {"queued_mb": (full - empty) / queued * QUEUED / 2**20, **idle}


def _idle(place: Bench, workers: Workers, seconds: float) -> dict[str, float]:
    processes = [pid for root in workers.pids for pid in tree(root)]
    before, counted, started = _cpu(processes), place.server.counters()["commands"], time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - started
    memories = [memory_mb(pid) for pid in processes]
    return {
        "idle_cpu": (_cpu(processes) - before) / passed * 100,
        "idle_commands": (place.server.counters()["commands"] - counted - 1) / passed,
        "processes": float(len(processes)),
        "rss_mb": sum(resident for resident, _ in memories),
        "pss_mb": sum(shared for _, shared in memories),
    }


def _cpu(processes: list[int]) -> float:
    return sum(cpu_seconds(pid) for pid in processes)


def kill(contestant: Contestant, programs: Path, *, patience_seconds: float, rtt_ms: float | None = None) -> Figures:
    """Kill a worker with all its processes while it runs jobs, start a new one, and count jobs by result."""
    with bench(contestant, programs, rtt_ms=rtt_ms) as place:
        ledger = place.ledger(KILL_JOBS)
        place.produce(ledger, "fill", str(KILL_JOBS))
        concurrency = 1 if contestant.runs_one else 10
        with place.workers(ledger, concurrency=concurrency, job_ms=KILL_JOB_MS) as workers:
            workers.start()
            wait_until(lambda: _is_amid(ledger, concurrency), workers, seconds=BOOT_SECONDS, poll_seconds=0.001)
            workers.kill()
            killed_ns = time.monotonic_ns()
            running = sum(run.start > run.end for run in ledger.runs())
            workers.start()
            deadline = time.monotonic() + patience_seconds
            while ledger.done_from_the_start() < ledger.count and time.monotonic() < deadline:
                time.sleep(0.05)
    runs = ledger.runs()
    return {
        "running": float(running),
        "lost": float(sum(not run.ends for run in runs)),
        "doubled": float(sum(run.ends > 1 for run in runs)),
        "last_seconds": (max(run.end for run in runs) - killed_ns) / 1e9,
        "patience": patience_seconds,
    }


def _is_amid(ledger: Ledger, concurrency: int) -> bool:
    runs = ledger.runs()
    started = sum(bool(run.start) for run in runs)
    return started >= KILL_JOBS // 5 and sum(run.start > run.end for run in runs) >= max(1, concurrency * 8 // 10)
