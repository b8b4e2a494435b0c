"""Long and short jobs in one queue: does a short job wait for a long one while a thread is free?

    python3 dev.py bench mixed --seconds 4

1. paced: long jobs keep most threads of two processes busy, short jobs are pushed one by one
2. backlog: every tenth job of a full queue is long
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.bar import Bar
from bench.compare.bench import BOOT_SECONDS, Bench, bench, wait_for_all, wait_until
from bench.compare.ledger import Run
from bench.compare.rivals.offsider import CONTESTANTS
from bench.compare.stats import quantile
from bench.mixed.lateness import late_ms
from offsider import Client, Config


def _worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
    return (programs / "offsider", "worker", "-r", "mixed_app", "-c", str(concurrency), "-e", "production")


OFFSIDER = replace(CONTESTANTS[0], app="mixed_app", worker=_worker)
PROCESSES, CONCURRENCY = 2, 10
SHORT_MS, LONG_MS = 1.0, 400.0
GAP_SECONDS = 0.005
LIMIT_MS = 40.0


@dataclass(frozen=True)
class Pushed:
    """One push: the duration of the job, and the pause before the push."""

    job_ms: float
    gap_seconds: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="dev.py bench mixed", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="duration of each part")
    options = parser.parse_args()
    bars = [
        told("paced", play(list(paced(options.seconds)))),
        told("backlog", play(list(backlog(options.seconds)))),
    ]
    print("\n" + "\n".join(str(bar) for bar in bars))
    return 0  # the bars do not affect the exit code


def paced(seconds: float) -> Iterator[Pushed]:
    """Yield long jobs for three quarters of the threads, and a short one after each gap."""
    threads = PROCESSES * CONCURRENCY
    long_every = int(LONG_MS / 1000 / (GAP_SECONDS * threads * 0.75))
    for number in range(int(seconds / GAP_SECONDS)):
        if number % long_every == 0:
            yield Pushed(LONG_MS)
        yield Pushed(SHORT_MS, GAP_SECONDS)


def backlog(seconds: float) -> Iterator[Pushed]:
    """Yield jobs for about this time."""
    ten_ms = LONG_MS + 9 * SHORT_MS
    for number in range(int(seconds * 1000 * PROCESSES * CONCURRENCY / ten_ms) * 10):
        yield Pushed(LONG_MS if number % 10 == 0 else SHORT_MS)


def play(pushes: list[Pushed]) -> list[tuple[Pushed, Run]]:
    with bench(OFFSIDER, Path(sys.executable).parent) as place:
        ledger = place.ledger(len(pushes) + 1)
        with place.workers(ledger, concurrency=CONCURRENCY) as workers:
            for _ in range(PROCESSES):
                workers.start()
            client = client_of(place)
            push(client, len(pushes), Pushed(SHORT_MS))
            wait_until(lambda: bool(ledger.runs()[-1].end), workers, seconds=BOOT_SECONDS)
            time.sleep(1.0)  # for the start of the other process
            pushed_ns = list(push_all(client, pushes))
            wait_for_all(ledger, workers)
        runs = [run._replace(pushed=at) for run, at in zip(ledger.runs(), pushed_ns, strict=False)]
        return list(zip(pushes, runs, strict=True))


def client_of(place: Bench) -> Client:
    config = Config()
    config.redis.url = place.server.url
    return Client(config)


def push_all(client: Client, pushes: list[Pushed]) -> Iterator[int]:
    """Push all jobs, in bulk if none has a gap, and yield the time of each push."""
    if not any(push.gap_seconds for push in pushes):
        now = time.monotonic_ns()
        args = [[number, push.job_ms] for number, push in enumerate(pushes)]
        client.push_bulk({"class": "mixed", "args": args})
        yield from [now] * len(pushes)
        return
    for number, one in enumerate(pushes):
        time.sleep(one.gap_seconds)
        yield time.monotonic_ns()
        push(client, number, one)


def push(client: Client, number: int, one: Pushed) -> None:
    client.push({"class": "mixed", "args": [number, one.job_ms]})


def told(name: str, played: list[tuple[Pushed, Run]]) -> Bar:
    lates = late_ms([run for _, run in played], PROCESSES * CONCURRENCY)
    short = sorted(late for (push, _), late in zip(played, lates, strict=True) if push.job_ms == SHORT_MS)
    lost = sum(not run.end for _, run in played)
    print(
        f"{name:<8} {len(played):>6} jobs, lost {lost}; delay of short jobs while a thread is free, ms: "
        f"p50 {quantile(short, 0.5):.2f}, p99 {quantile(short, 0.99):.2f}, most {short[-1]:.2f}"
    )
    return Bar(f"{name}: maximum delay of a short job while a thread is free, ms", short[-1], LIMIT_MS, is_most=True)


if __name__ == "__main__":
    sys.exit(main())
