"""The cost of unique jobs: pushes without the extension, with it but without an option, and with a lock, in one run.

    python3 dev.py bench unique --jobs 5000 --rounds 5

The kinds take turns on one server, in slices and in alternating order. Each push of the last kind has different
arguments, so that no push is refused. The ratio is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from offsider import Client, Config
from offsider.config.installation import Installation
from offsider.embedded import EmbeddedServer
from offsider.ext.unique import Unique

PLAIN, INSTALLED, LOCKED = "not installed", "installed, no option", "locked"
SLICE = 100
Push = Callable[[int], object]


def main() -> int:
    """Print microseconds per push for each kind, one by one and in bulk, and their ratios."""
    parser = argparse.ArgumentParser(prog="dev.py bench unique", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=5_000, help="pushes of each kind in a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as folder, EmbeddedServer(Path(folder)) as server:
        for name, pushes in (("one by one", one_by_one(server.url)), ("in bulk", in_bulk(server.url))):
            figures = measure(pushes, options.jobs, options.rounds, server.url)
            for kind, us in figures.items():
                print(f"{name:<12}{kind:<22}{us:>8.1f} us a push{us / figures[PLAIN]:>8.2f} x")
    return 0


def one_by_one(url: str) -> dict[str, Push]:
    """Return pushers that make one round trip per job."""
    plain, unique = clients(url)
    numbers = count()

    def push(client: Client, job: dict[str, object], jobs: int) -> None:
        for _ in range(jobs):
            client.push({**job, "args": [next(numbers), "two", 3]})

    return {
        PLAIN: lambda jobs: push(plain, {"class": "bench.noop"}, jobs),
        INSTALLED: lambda jobs: push(unique, {"class": "bench.noop"}, jobs),
        LOCKED: lambda jobs: push(unique, {"class": "bench.noop", "unique_for": 600}, jobs),
    }


def in_bulk(url: str) -> dict[str, Push]:
    """Return pushers that make one call for all jobs."""
    plain, unique = clients(url)
    numbers = count()

    def push(client: Client, job: dict[str, object], jobs: int) -> None:
        client.push_bulk({**job, "args": [[next(numbers), "two", 3] for _ in range(jobs)]})

    return {
        PLAIN: lambda jobs: push(plain, {"class": "bench.bulk"}, jobs),
        INSTALLED: lambda jobs: push(unique, {"class": "bench.bulk"}, jobs),
        LOCKED: lambda jobs: push(unique, {"class": "bench.bulk", "unique_for": 600}, jobs),
    }


def clients(url: str) -> tuple[Client, Client]:
    """Return a client without the extension and one with it."""
    plain, unique = Config(), Config()
    plain.redis.url = unique.redis.url = url
    unique.use(Unique())
    return Client(plain), Client(unique)


def measure(pushes: dict[str, Push], jobs: int, rounds: int, url: str) -> dict[str, float]:
    """Return microseconds per push for each kind: the median of many slices, which resists other load."""
    config = Config()
    config.redis.url = url
    for push in pushes.values():
        push(SLICE)
    spent: dict[str, list[float]] = {kind: [] for kind in pushes}
    for number in range(rounds):
        for turn in range(max(1, jobs // SLICE)):
            order = list(pushes) if (number + turn) % 2 == 0 else list(pushes)[::-1]
            for kind in order:
                started = time.perf_counter()
                pushes[kind](SLICE)
                spent[kind].append((time.perf_counter() - started) / SLICE * 1e6)
        Installation.of(config).redis.call("FLUSHALL")
    return {kind: statistics.median(times) for kind, times in spent.items()}


if __name__ == "__main__":
    sys.exit(main())
