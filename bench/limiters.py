"""Several processes on the same limiters: the limits are kept, and at least 95 % of them is used.

    python3 dev.py bench limiters --processes 16 --seconds 60

Each process uses one limiter of each kind as fast as it can, in one thread each. A second server counts the uses: the
running blocks of the concurrent limiter, and all blocks of the others. Exits with 1 if a limit was exceeded, or not
reached.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from offsider import Config
from offsider.embedded import EmbeddedServer
from offsider.ext.limiters import ConcurrentLimiter, Limiter, Limiters, OverLimit, RateLimiter
from offsider.storage.redis import Redis, RedisSettings

RATE = 40
SLOTS = 2
BLOCK_SECONDS = 0.3
REACHED = 0.95


@dataclass(frozen=True)
class Result:
    """What a limiter has permitted.

    Attributes:
        kind: of the limiter.
        most: the most that the limiter may permit: running blocks, or uses of the whole run.
        found: what it has permitted.
        reached: the used share of the limit.
    """

    kind: str
    most: int
    found: int
    reached: float

    @property
    def passed(self) -> bool:
        return self.found <= self.most and self.reached >= REACHED


def measure(url: str, counter_url: str, *, processes: int, seconds: float) -> list[Result]:
    """Run the processes against the limiters at ``url``, and return the result of each kind."""
    command = [sys.executable, "-m", "bench.limiters", "--child", url, counter_url, str(seconds)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    try:
        counter = Redis(RedisSettings(url=counter_url), size=1)
        deadline = time.monotonic() + 60
        while int(counter.call("GET", "ready") or 0) < processes and time.monotonic() < deadline:
            time.sleep(0.01)
        counter.call("SET", "go", 1)
        reports = [json.loads(process.communicate(timeout=seconds + 60)[0]) for process in started]
        found = {kind: int(counter.call("GET", f"uses:{kind}") or 0) for kind in ("bucket", "window", "leaky")}
        most = int(counter.call("GET", "most") or 0)
        counter.close()
    finally:
        for process in started:
            process.kill()
            process.wait()
    # Blocks that have waited end a little later.
    begun, ended = min(report["begun"] for report in reports), max(report["ended"] for report in reports)
    duration = ended - begun
    limits = {
        "bucket": RATE * (math.floor(ended) - math.floor(begun) + 1),
        "window": RATE * (math.floor(duration) + 1),
        "leaky": RATE + math.floor(RATE * duration),
    }
    held = sum(report["held"] for report in reports) / (SLOTS * seconds)
    rates = [Result(kind, limits[kind], found[kind], found[kind] / (RATE * seconds)) for kind in found]
    return [Result("concurrent", SLOTS, most, held), *rates]


class Child:
    """One process, with a thread for each kind."""

    def __init__(self, url: str, counter_url: str, seconds: float) -> None:
        self.config = Config()
        self.config.redis.url = url
        self.config.use(Limiters())
        self.counter = Redis(RedisSettings(url=counter_url), size=4)
        self.seconds = seconds
        self.held = 0.0
        self.ends = 0.0

    def run(self) -> None:
        """Wait for the signal, use the limiters, and print the times."""
        rates = [getattr(Limiter, kind)("bench", RATE, "second", config=self.config) for kind in ("bucket", "window")]
        rates.append(Limiter.leaky("bench", RATE, "second", config=self.config))
        slots = Limiter.concurrent("bench", SLOTS, config=self.config)
        threads = [threading.Thread(target=self.use, args=(rate,)) for rate in rates]
        threads.append(threading.Thread(target=self.hold, args=(slots,)))
        self.counter.call("INCR", "ready")
        while not self.counter.call("EXISTS", "go"):
            time.sleep(0.005)
        begun = time.time()
        self.ends = begun + self.seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps({"begun": begun, "ended": time.time(), "held": self.held}))

    def use(self, limiter: RateLimiter) -> None:
        while time.time() < self.ends:
            try:
                with limiter.within_limit():
                    self.counter.call("INCR", f"uses:{limiter.kind}")
            except OverLimit:
                continue

    def hold(self, limiter: ConcurrentLimiter) -> None:
        while time.time() < self.ends:
            try:
                with limiter.within_limit():
                    started = time.time()
                    running = int(self.counter.call("INCR", "running"))
                    if running > int(self.counter.call("GET", "most") or 0):
                        self.counter.call("SET", "most", running)
                    time.sleep(max(0.0, min(BLOCK_SECONDS, self.ends - time.time())))
                    self.counter.call("DECR", "running")
                    self.held += time.time() - started
            except OverLimit:
                continue


def main() -> int:
    """Print the result of each kind."""
    parser = argparse.ArgumentParser(prog="dev.py bench limiters", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        url, counter_url, seconds = options.child
        Child(url, counter_url, float(seconds)).run()
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="offsider-bench-")))
        servers = [stack.enter_context(EmbeddedServer(folder / name)) for name in ("limits", "counts")]
        urls = [server.url for server in servers]
        results = measure(*urls, processes=options.processes, seconds=options.seconds)
    for one in results:
        verdict = "" if one.passed else "  FAILED"
        print(f"{one.kind:<12}{one.found:>8,} of at most {one.most:>8,}{one.reached:>9.1%} of the limit{verdict}")
    return 0 if all(one.passed for one in results) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
