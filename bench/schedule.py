"""Measures the lateness of scheduled jobs, the rate at which due jobs move, and the memory for a million of them.

    python3 dev.py bench schedule --jobs 100000 --single 200 --kept 1000000

The test starts its own server on a unix socket, without persistence, and a real worker process. Lateness is the time
from the due time of a job until a plain client that waits on its queue receives it: the delay of the scheduler. Due
jobs move while the same worker runs other jobs, so that the two compete for the CPU. The other jobs are stored before
and become available in one step. If the worker uses them up, the run is invalid and exits with code 1.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from typing import Any

from bench.bar import Bar
from bench.compare.stats import quantile
from bench.place import PATIENCE_SECONDS, Place, Usage, wait_until
from offsider import Client

LEAD_SECONDS = 1.0
#: Other jobs: enough for the lead time, plus this number for each moving job, more than the worker can fetch meanwhile.
BESIDE, BESIDE_EACH = 150_000, 8


def main() -> int:
    """Run the measurements and print figures and bars; exit code 1 if the other jobs were used up."""
    options = parse()
    with Place(persist=False) as place, place.worker("-q", "served", concurrency=5) as process:
        client, watcher = place.client(), place.raw
        bars = lateness(client, watcher, options.single)
        moved, left = moving(client, watcher, options.jobs)
        bars += moved
        bars += memory(client, process, options.kept)
    print("\n" + "\n".join(str(bar) for bar in bars))
    return 0 if left else 1  # the bars do not affect the exit code


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench schedule", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000, help="jobs due at once")
    parser.add_argument("--single", type=int, default=200, help="jobs due one by one on an idle server")
    parser.add_argument("--kept", type=int, default=1_000_000, help="jobs scheduled for another day")
    return parser.parse_args()


def scheduled(client: Client, count: int, at: float, queue: str) -> None:
    arguments = ([number, "two", 3] for number in range(count))
    client.push_bulk({"class": "bench.pass", "queue": queue, "args": arguments, "at": at}, batch_size=1000)


def lateness(client: Client, watcher: Any, count: int) -> list[Bar]:
    """Push each job more than a second ahead, so that the scheduler has read it before it is due."""
    late: list[float] = []
    wait_until(lambda: watcher.exists("offsider:schedule"))
    for _ in range(count):
        due = time.time() + random.uniform(1.1, 1.5)
        client.push({"class": "bench.pass", "queue": "watched", "args": [], "at": due})
        watcher.blpop("queue:watched", timeout=PATIENCE_SECONDS)
        late.append((time.time() - due) * 1000)
    late.sort()
    middle, nearly_all = quantile(late, 0.5), quantile(late, 0.99)
    print(f"late, one by one     p50 {middle:.2f} ms, p99 {nearly_all:.2f} ms, most {late[-1]:.2f} ms")
    return [Bar("late, one by one, p99, ms", nearly_all, 50, is_most=True)]


def moving(client: Client, watcher: Any, count: int) -> tuple[list[Bar], int]:
    """Move due jobs while the worker's threads run other jobs; return bars, and the number of other jobs left."""
    beside = BESIDE + BESIDE_EACH * count
    client.push_bulk({"class": "bench.pass", "queue": "aside", "args": ([n] for n in range(beside))}, batch_size=1000)
    due = time.time() + LEAD_SECONDS + 4 + count / 10_000
    scheduled(client, count, due, "watched")
    if time.time() > due - LEAD_SECONDS:
        sys.exit("jobs were due before all of them were scheduled")
    time.sleep(due - LEAD_SECONDS - time.time())
    watcher.rename("queue:aside", "queue:served")
    time.sleep(max(0.0, due - time.time()))
    served, started = int(watcher.llen("queue:served")), time.perf_counter()
    alone = (beside - served) / LEAD_SECONDS
    wait_until(lambda: watcher.llen("queue:watched") == count)
    seconds = time.perf_counter() - started
    left = int(watcher.llen("queue:served"))
    fetched = (served - left) / seconds
    print(f"moved, due at once   {count / seconds:,.0f} /s")
    print(f"fetched beside it    {fetched:,.0f} /s, in the second before {alone:,.0f} /s; {left:,} left")
    watcher.delete("queue:watched", "queue:served")
    bars = [
        Bar("jobs due at once: moved, /s", count / seconds, 10_000),
        Bar("meanwhile: fetched, times what was fetched before", fetched / alone if alone else None, 0.25),
        Bar("meanwhile: jobs left to fetch", left, 1),
    ]
    return bars, left


def memory(client: Client, process: subprocess.Popen[bytes], count: int) -> list[Bar]:
    before = Usage.of(process.pid)
    scheduled(client, count, time.time() + 86_400, "later")
    time.sleep(3.0)
    after = Usage.of(process.pid)
    print(f"memory               {before.rss_mb:.1f} MB, with {count:,} scheduled {after.rss_mb:.1f} MB")
    return [Bar("memory for what is scheduled, MB", after.rss_mb - before.rss_mb, 1, is_most=True)]


if __name__ == "__main__":
    sys.exit(main())
