"""How late scheduled jobs are, how fast a heap of due ones moves, and what a million costs a worker.

    python3 dev.py bench schedule --jobs 100000 --single 200 --kept 1000000

The server is one of our own on a unix socket, without persistence; the worker is a real process. Lateness is from the
time that a job is due to the moment that a plain client, waiting at its queue, has it: what the scheduler adds. Jobs
that are due move while the same worker runs others, so that neither has the machine for itself.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis
from load import Usage

from offsider import Client, Config
from offsider.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
PATIENCE_SECONDS = 300
BESIDE = 150_000


def main() -> int:
    """Measure one after the other and print the figures."""
    options = parse()
    with (
        tempfile.TemporaryDirectory(prefix="offsider-bench-") as folder,
        EmbeddedServer(Path(folder) / "server", persist=False) as server,
        redis.Redis.from_url(server.url) as watcher,
    ):
        config = Config()
        config.redis.url = server.url
        client = Client(config)
        with worker(Path(folder), server.url) as process:
            lateness(client, watcher, options.single)
            moving(client, watcher, options.jobs)
            memory(client, process, options.kept)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench schedule", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000, help="due at once")
    parser.add_argument("--single", type=int, default=200, help="due one by one on an idle server")
    parser.add_argument("--kept", type=int, default=1_000_000, help="scheduled for another day")
    return parser.parse_args()


@contextmanager
def worker(folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    environ = os.environ | {
        "OFFSIDER_REDIS_URL": url,
        "OFFSIDER_LOG_LEVEL": "warn",
        "PYTHONPATH": str(HERE),
    }
    command = [sys.executable, "-m", "offsider", "worker", "-r", "schedule_app", "-q", "served", "-e", "production"]
    process = subprocess.Popen(command, env=environ, cwd=folder)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def scheduled(client: Client, count: int, at: float, queue: str) -> None:
    arguments = ([number, "two", 3] for number in range(count))
    client.push_bulk({"class": "bench.pass", "queue": queue, "args": arguments, "at": at}, batch_size=1000)


def lateness(client: Client, watcher: Any, count: int) -> None:
    """Each job comes while the scheduler sleeps to a later one: it is woken for it, and then sleeps to it."""
    late = []
    wait_until(lambda: watcher.exists("offsider:schedule"))
    client.push({"class": "bench.pass", "queue": "later", "args": [], "at": time.time() + 86_400})
    for _ in range(count):
        due = time.time() + random.uniform(0.01, 0.05)
        client.push({"class": "bench.pass", "queue": "watched", "args": [], "at": due})
        watcher.blpop("queue:watched", timeout=PATIENCE_SECONDS)
        late.append((time.time() - due) * 1000)
    late.sort()
    figures = statistics.median(late), late[int(count * 0.99) - 1], late[-1]
    print("late, one by one     p50 {:.2f} ms, p99 {:.2f} ms, most {:.2f} ms".format(*figures))


def moving(client: Client, watcher: Any, count: int) -> None:
    """The worker's threads are busy meanwhile: they run jobs of their own."""
    due = time.time() + 5 + count / 10_000
    scheduled(client, count, due, "watched")
    time.sleep(max(0.0, due - time.time() - 2.5))
    client.push_bulk({"class": "bench.pass", "queue": "served", "args": ([n] for n in range(BESIDE))}, batch_size=1000)
    time.sleep(max(0.0, due - time.time()))
    served, started = watcher.llen("queue:served"), time.perf_counter()
    wait_until(lambda: watcher.llen("queue:watched") == count)
    seconds = time.perf_counter() - started
    ran = served - watcher.llen("queue:served")
    print(f"moved, due at once   {count / seconds:,.0f} /s; beside it {ran / seconds:,.0f} jobs /s were fetched")
    watcher.delete("queue:watched", "queue:served")


def memory(client: Client, process: subprocess.Popen[bytes], count: int) -> None:
    before = Usage.of(process.pid)
    scheduled(client, count, time.time() + 86_400, "later")
    time.sleep(3.0)
    after = Usage.of(process.pid)
    print(f"memory               {before.rss_mb:.1f} MB, with {count:,} scheduled {after.rss_mb:.1f} MB")


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("the worker does not move")
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
