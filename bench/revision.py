"""Measures the working tree, or compares it with a revision: pushes, drains, pick-up and idle cost, in turns.

    python3 dev.py bench revision
    python3 dev.py bench revision HEAD~50 --rounds 12

1. The code of the revision is exported into a temporary folder. Jobs, slots and server program are the same for both.
2. In each round each of the two, on its own server: pushes jobs one by one (`enqueue`, then `aenqueue`) and in bulk in
   a process; runs no-op jobs, no-op jobs with the job log (INFO), no-op coroutines, and jobs of 10 ms in a worker
   process each; measures the boot and the idle cost of a worker and its parent, and starts single jobs in it. The
   order of the two alternates between rounds.
3. The ratio is the median of the ratios within each round, because other load on the machine disturbs both. It is above
   1 if the working tree is better.
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
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.load_app import noop
from bench.place import ROOT, Place, Usage, microseconds, wait_for_first
from bench.slots import Slots
from offsider import Client
from tests.waiting import wait_for

SINGLE_PUSHES = 5_000
#: Share of the no-op jobs that run with the job log, and as coroutines.
SLOWER_SHARE = 0.3
SHORT_JOBS, SHORT_MS, SHORT_THREADS = 5_000, 10.0, 50
PICK_UPS, GAP_SECONDS = 200, 0.01
#: Until a heartbeat has written the counts of the first job, and the boot has ended.
SETTLE_SECONDS = 12.0
IDLE_SECONDS = 20.0
#: The figures of one round, by their names. More is better for `RATES`; less is better for the others.
Figures = Mapping[str, float]
NO_OPS, LOGGED, COROUTINES = "no-ops, jobs/s", "no-ops with INFO log, jobs/s", "no-op coroutines, jobs/s"
SHORT = f"{SHORT_MS:g} ms at concurrency {SHORT_THREADS}, jobs/s"
RATES = (NO_OPS, LOGGED, COROUTINES, SHORT)
BAR = 0.97


def main() -> int:
    """Print the figures, and the ratios of two revisions."""
    options = parse()
    with sources(options.revision) as found:
        runs: dict[str, list[Figures]] = {kind: [] for kind in found}
        for number in range(options.rounds):
            for kind in [*found][:: 1 if number % 2 else -1]:
                runs[kind].append(measure(options, found[kind]))
                shown = "  ".join(f"{what} {value:,.2f}" for what, value in runs[kind][-1].items())
                print(f"round {number + 1} {kind:<7} {shown}", flush=True)
    print(table(runs.get("before", []), runs["now"]))
    return 0


def table(before: Sequence[Figures], now: Sequence[Figures]) -> str:
    """Return the medians, and those of the ratios within a round; ``<`` marks a ratio below `BAR`."""
    lines = [f"\n{'median of the rounds':<40}{'now':>12}" + (f"{'before':>12}{'ratio':>10}" if before else "")]
    for what in now[0]:
        lines.append(f"{what:<40}{statistics.median(figures[what] for figures in now):>12,.2f}")
        if before:
            pairs = [(first[what], second[what]) for first, second in zip(before, now, strict=True)]
            ratio = statistics.median(new / old if what in RATES else old / new for old, new in pairs)
            old = statistics.median(old for old, _ in pairs)
            lines[-1] += f"{old:>12,.2f}{ratio:>10.3f}{' <' if ratio < BAR else ''}"
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench revision", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision", nargs="?", default="", help="git revision to compare with")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


@contextmanager
def sources(revision: str) -> Generator[dict[str, Path]]:
    """Export the code of a revision, if one is given; yield the folders of the packages that are compared."""
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as folder:
        now = {"now": ROOT / "src"}
        if revision:
            code = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=code, check=True)
        yield {"before": Path(folder, "src"), **now} if revision else now


def measure(options: argparse.Namespace, source: Path) -> Figures:
    """Run one round with the code in ``source``."""
    figures: dict[str, float] = {}
    with Place(persist=False, environ={"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}) as place:
        client = place.client()  # of the working tree: the same one for both
        figures |= pushed(options, place)
        ran = place.drain(options.jobs)
        figures[NO_OPS] = ran.rate
        figures["worker CPU per no-op, us"] = ran.cpu_us
        figures["worker memory after no-ops, MB"] = ran.rss_mb
        fewer = int(options.jobs * SLOWER_SHARE)
        place.push_bulk(client, fewer)
        figures[LOGGED] = place.drain(fewer, log_level="info").rate
        place.push_bulk(client, fewer, "anoop")
        figures[COROUTINES] = place.drain(fewer).rate
        place.push_bulk(client, SHORT_JOBS)
        figures[SHORT] = place.drain(SHORT_JOBS, concurrency=SHORT_THREADS, job_ms=SHORT_MS).rate
        figures |= idle(place, client)
    return figures


def idle(place: Place, client: Client) -> Figures:
    """Measure the boot and the idle cost of a worker, and the time from the push to the start of single jobs."""
    slots = Slots(place.folder / "slots", PICK_UPS + 1)
    client.push({"class": "bench.noop", "args": [PICK_UPS]})
    started_ns = time.monotonic_ns()
    with place.worker() as worker:
        wait_for_first(slots, worker)
        boot_seconds = (slots.runs()[PICK_UPS].start - started_ns) / 1e9
        time.sleep(SETTLE_SECONDS)
        before = Usage.of(worker.pid)
        reads = place.raw.info()["total_reads_processed"]
        time.sleep(IDLE_SECONDS)
        reads = place.raw.info()["total_reads_processed"] - reads
        after = Usage.of(worker.pid)
        pushed_at: list[int] = []
        for number in range(PICK_UPS):
            pushed_at.append(time.monotonic_ns())
            client.push({"class": "bench.noop", "args": [number]})
            time.sleep(GAP_SECONDS)
        wait_for(lambda: slots.done_from_the_start() > PICK_UPS)
    late = [run.start - at for run, at in zip(slots.runs(), pushed_at, strict=False)]
    return {
        "boot to first job, s": boot_seconds,
        "idle, requests/s": reads / IDLE_SECONDS,
        "idle, CPU %": max((after.cpu_seconds - before.cpu_seconds) / IDLE_SECONDS * 100, 0.01),
        "idle worker, MB": after.rss_mb,
        "pick-up p50, us": statistics.median(late) / 1000,
    }


def pushed(options: argparse.Namespace, place: Place) -> Figures:
    command = [sys.executable, "-c", f"from bench.revision import push; push({options.jobs})"]
    said = subprocess.run(command, env=place.environ, cwd=place.folder, check=False, stdout=subprocess.PIPE, text=True)
    if said.returncode:
        sys.exit(f"the pushes failed with the code in {place.environ['PYTHONPATH'].partition(os.pathsep)[0]}")
    return {str(what): float(us) for what, us in json.loads(said.stdout).items()}


def push(jobs: int) -> None:
    """Push jobs in a process with the measured code; print microseconds per job of each way to push."""
    unserved = noop.using(queue="unserved")

    def one_by_one() -> None:
        for number in range(SINGLE_PUSHES):
            unserved.enqueue(number, "two", 3)

    async def awaited() -> float:
        await unserved.aenqueue(0, "two", 3)
        started = time.perf_counter()
        for number in range(SINGLE_PUSHES):
            await unserved.aenqueue(number, "two", 3)
        return time.perf_counter() - started

    unserved.enqueue(0, "two", 3)
    one_us = microseconds(one_by_one, SINGLE_PUSHES)
    asynchronous = asyncio.run(awaited())
    bulk = lambda: noop.enqueue_many((number, "two", 3) for number in range(jobs))  # noqa: E731
    figures = {
        "pushed one by one, us": one_us,
        "pushed with aenqueue, us": asynchronous / SINGLE_PUSHES * 1e6,
        "pushed in bulk, us": microseconds(bulk, jobs),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(main())
