"""The measurements. Each is one run on its own server and returns its figures by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.compare.bench import BOOT_SECONDS, Bench, Broken, Workers, bench, wait_for_all, wait_until
from bench.compare.machine import CpuTimes, cpu_seconds, memory_mb, others_cores, proxy_cores, read_cpu_times, tree
from bench.compare.rivals import Contestant
from bench.report import quantile
from bench.slots import Slots, lags_ms, rate_of

Figures = Mapping[str, float]

QUEUED = 10_000
KILL_JOBS = 200
KILL_JOB_MS = 50


@dataclass(frozen=True)
class Scale:
    """The number and length of the runs.

    Attributes:
        run_seconds: target duration of a run.
        rtt_ms: a proxy adds this round trip between worker or producer and server; None without a proxy.
    """

    repeats: int
    run_seconds: float
    pushes: int
    idle_seconds: float
    patience_seconds: float
    extra_rounds: int
    rtt_ms: float | None = None


def drain(
    contestant: Contestant,
    programs: Path,
    jobs: int,
    scale: Scale,
    *,
    concurrency: int = 10,
    processes: int = 1,
    job_ms: float = 0,
    log: str = "warn",
) -> Figures:
    """Run a backlog of jobs: measure the rate, and the cost per job."""
    with bench(contestant, programs, rtt_ms=scale.rtt_ms) as place:
        slots = place.make_slots(jobs)
        place.produce(slots, "fill", str(jobs))
        with place.workers(slots, concurrency=concurrency, job_ms=job_ms, log=log) as workers:
            workers.start_all(processes)
            wait_until(slots.has_begun, workers, seconds=BOOT_SECONDS, poll_seconds=0.002)
            before, counted = place.cpu_times(workers), place.server.counters()
            wait_for_all(slots, workers)
            after, counts = place.cpu_times(workers), place.server.counters()
        return _drained(slots, processes, before, after) | {
            name: (counts[name] - counted[name]) / _ended_after(slots, before) for name in ("commands", "reads")
        }


def _drained(slots: Slots, processes: int, before: CpuTimes, after: CpuTimes) -> dict[str, float]:
    runs = slots.runs()
    try:
        rate = rate_of(runs)
    except ValueError as error:
        raise Broken(str(error)) from None
    begun = len({run.process for run in runs if run.start})
    if begun < processes:
        raise Broken(f"{begun} of {processes} processes ran jobs: the run was too short")
    looked_at = _ended_after(slots, before)
    return {
        "rate": rate.whole,
        "middle": rate.middle,
        "seconds": rate.seconds,
        "jobs": float(slots.count),
        "worker_us": (after.workers - before.workers) / looked_at * 1e6,
        "server_us": (after.server - before.server) / looked_at * 1e6,
        "lost": float(sum(not run.end for run in runs)),
        "doubled": float(sum(run.starts > 1 for run in runs)),
        "others": others_cores(before, after),
        "proxy_cores": proxy_cores(before, after),
    }


def _ended_after(slots: Slots, before: CpuTimes) -> int:
    return max(1, sum(run.end > before.at_ns for run in slots.runs()))


def push(contestant: Contestant, programs: Path, jobs: int, scale: Scale, *, word: str = "push") -> Figures:
    """Push with one producer: measure jobs/s, its CPU, and the server's commands per job."""
    with bench(contestant, programs, rtt_ms=scale.rtt_ms) as place:
        counted, before = place.server.counters(), read_cpu_times([], place.server.pid)
        figures = place.produce(place.make_slots(jobs + 100), word, str(jobs), url=place.reached)
        after, counts = read_cpu_times([], place.server.pid), place.server.counters()
        return {
            **figures,
            "jobs": float(jobs),
            "server_us": (after.server - before.server) / jobs * 1e6,
            "commands": (counts["commands"] - counted["commands"]) / jobs,
            "seconds": jobs / figures["rate"],
            "others": others_cores(before, after),
        }


def latency(contestant: Contestant, programs: Path, _jobs: int, scale: Scale) -> Figures:
    """Measure the time from push to start with an idle worker, in ms."""
    pushes = scale.pushes
    with bench(contestant, programs, rtt_ms=scale.rtt_ms) as place:
        slots = place.make_slots(pushes + 2)
        with place.workers(slots, concurrency=10) as workers:
            workers.start()
            before = place.cpu_times(workers)
            place.produce(slots, "latency", str(pushes), str(contestant.gap_ms))
            wait_for_all(slots, workers)
            others = others_cores(before, place.cpu_times(workers))
        lags = list(lags_ms(slots.runs()))
        if len(lags) < pushes + 2:
            raise Broken(f"{pushes + 2 - len(lags)} of {pushes + 2} jobs did not run")
        paced = sorted(lags[1:-1])
        return {"p50": quantile(paced, 0.5), "p99": quantile(paced, 0.99), "silence": lags[-1], "others": others}


def memory(contestant: Contestant, programs: Path, _jobs: int, scale: Scale) -> Figures:
    """Measure the server's memory for queued jobs; then, on another server, the cost of an idle worker."""
    queued = QUEUED if contestant.has_bulk else QUEUED // 5
    with bench(contestant, programs, rtt_ms=scale.rtt_ms) as place:
        empty = place.server.counters()["memory"]
        place.produce(place.make_slots(queued), "fill", str(queued))
        full = place.server.counters()["memory"]
    with bench(contestant, programs, rtt_ms=scale.rtt_ms) as place:
        slots = place.make_slots(1)
        with place.workers(slots, concurrency=10) as workers:
            workers.start()
            place.produce(slots, "fill", "1")
            wait_until(lambda: slots.done_from_the_start() == 1, workers, seconds=BOOT_SECONDS)
            time.sleep(1.5)
            idle = _idle(place, workers, scale.idle_seconds)
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


def kill(contestant: Contestant, programs: Path, _jobs: int, scale: Scale) -> Figures:
    """Kill a worker with all its processes while it runs jobs, start a new one, and count jobs by result."""
    with bench(contestant, programs, rtt_ms=scale.rtt_ms) as place:
        slots = place.make_slots(KILL_JOBS)
        place.produce(slots, "fill", str(KILL_JOBS))
        concurrency = 1 if contestant.runs_one else 10
        with place.workers(slots, concurrency=concurrency, job_ms=KILL_JOB_MS) as workers:
            workers.start()
            wait_until(lambda: _is_amid(slots, concurrency), workers, seconds=BOOT_SECONDS, poll_seconds=0.001)
            workers.kill()
            killed_ns = time.monotonic_ns()
            running = sum(run.start > run.end for run in slots.runs())
            workers.start()
            deadline = time.monotonic() + scale.patience_seconds
            while slots.done_from_the_start() < slots.count and time.monotonic() < deadline:
                time.sleep(0.05)
    runs = slots.runs()
    return {
        "running": float(running),
        "lost": float(sum(not run.ends for run in runs)),
        "doubled": float(sum(run.ends > 1 for run in runs)),
        "last_seconds": (max(run.end for run in runs) - killed_ns) / 1e9,
        "patience": scale.patience_seconds,
    }


def _is_amid(slots: Slots, concurrency: int) -> bool:
    runs = slots.runs()
    started = sum(bool(run.start) for run in runs)
    return started >= KILL_JOBS // 5 and sum(run.start > run.end for run in runs) >= max(1, concurrency * 8 // 10)
