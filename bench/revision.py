"""Compares the working tree with a revision: pushes, drains, pick-up and memory of both, in turns in one run.

    python3 dev.py bench revision HEAD~50 --rounds 12

1. The code of the revision is exported into a temporary folder. Jobs, slots and server program are the same for both.
2. In each round each of the two, on its own server: pushes jobs one by one (`enqueue`, then `aenqueue`) and in bulk in
   a process; runs no-op jobs, no-op jobs with the job log (INFO), and jobs of 10 ms in a worker process each; and
   starts single jobs in an idle worker. The order of the two alternates between rounds.
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
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.load_app import noop
from bench.place import ROOT, Place, Usage, microseconds, wait_for_first, wait_until
from bench.slots import Slots
from offsider import Client

SINGLE_PUSHES = 5_000
LOGGED_SHARE = 0.3
SHORT_JOBS, SHORT_MS, SHORT_THREADS = 5_000, 10.0, 50
PICK_UPS, GAP_SECONDS = 200, 0.01
#: The figures of one round, by their names. More is better for `RATES`; less is better for the others.
Figures = Mapping[str, float]
NO_OPS, LOGGED = "no-ops, jobs/s", "no-ops with INFO log, jobs/s"
SHORT = f"{SHORT_MS:g} ms at concurrency {SHORT_THREADS}, jobs/s"
RATES = (NO_OPS, LOGGED, SHORT)
BAR = 0.97


def main() -> int:
    """Print the figures of both, and their ratios."""
    options = parse()
    if options.push:
        return push(options)
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as name:
        sources = {"before": export(options.revision, Path(name)), "now": ROOT / "src"}
        runs: dict[str, list[Figures]] = {kind: [] for kind in sources}
        for number in range(options.rounds):
            for kind in [*sources][:: 1 if number % 2 else -1]:
                runs[kind].append(measure(options, sources[kind]))
                shown = "  ".join(f"{what} {value:,.1f}" for what, value in runs[kind][-1].items())
                print(f"round {number + 1} {kind:<7} {shown}", flush=True)
    print(table(runs["before"], runs["now"]))
    return 0


def table(before: Sequence[Figures], now: Sequence[Figures]) -> str:
    """Return the medians of both, and the medians of their ratios within a round; ``<`` marks one below `BAR`."""
    lines = [f"\n{'median of the rounds':<40}{'before':>12}{'now':>12}{'ratio':>10}"]
    for what in before[0]:
        pairs = [(first[what], second[what]) for first, second in zip(before, now, strict=True)]
        ratio = statistics.median(new / old if what in RATES else old / new for old, new in pairs)
        old, new = (statistics.median(values) for values in zip(*pairs, strict=True))
        lines.append(f"{what:<40}{old:>12,.1f}{new:>12,.1f}{ratio:>10.3f}{' <' if ratio < BAR else ''}")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench revision", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision", help="git revision to compare with")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--push", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def export(revision: str, folder: Path) -> Path:
    """Export the code of a revision into a folder; return the folder of its packages."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder / "src"


def measure(options: argparse.Namespace, source: Path) -> Figures:
    """Run one round with the code in ``source``."""
    figures: dict[str, float] = {}
    with Place(environ={"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}) as place:
        client = place.client()  # of the working tree: the same one for both
        figures |= pushed(options, place)
        ran = place.drain(options.jobs)
        figures[NO_OPS] = ran.middle
        figures["worker CPU per no-op, us"] = ran.cpu_us
        figures["worker memory after no-ops, MB"] = ran.last.rss_mb
        logged = int(options.jobs * LOGGED_SHARE)
        place.push_bulk(client, logged)
        figures[LOGGED] = place.drain(logged, log_level="info").middle
        place.push_bulk(client, SHORT_JOBS)
        figures[SHORT] = place.drain(SHORT_JOBS, concurrency=SHORT_THREADS, job_ms=SHORT_MS).middle
        figures["pick-up p50, us"], figures["idle worker, MB"] = picked_up(place, client)
    return figures


def picked_up(place: Place, client: Client) -> tuple[float, float]:
    """Push single jobs to an idle worker; return the median microseconds from push to start, and its memory in MB."""
    slots = Slots(place.folder / "slots", PICK_UPS + 1)
    with place.worker() as worker:
        client.push({"class": "bench.noop", "args": [PICK_UPS]})
        wait_for_first(slots, worker)
        time.sleep(1)
        memory = Usage.of(worker.pid).rss_mb
        pushed_at: list[int] = []
        for number in range(PICK_UPS):
            pushed_at.append(time.monotonic_ns())
            client.push({"class": "bench.noop", "args": [number]})
            time.sleep(GAP_SECONDS)
        wait_until(lambda: slots.finished() > PICK_UPS)
    starts = [start for start, _, _ in slots.read()]
    late = [start - at for start, at in zip(starts, pushed_at, strict=False)]
    return statistics.median(late) / 1000, memory


def pushed(options: argparse.Namespace, place: Place) -> Figures:
    command = [sys.executable, "-m", "bench.revision", options.revision, "--push", "--jobs", str(options.jobs)]
    said = subprocess.run(command, env=place.environ, cwd=place.folder, check=True, capture_output=True, text=True)
    return {str(what): float(us) for what, us in json.loads(said.stdout).items()}


def push(options: argparse.Namespace) -> int:
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
    bulk = lambda: noop.enqueue_many((number, "two", 3) for number in range(options.jobs))  # noqa: E731
    figures = {
        "pushed one by one, us": one_us,
        "pushed with aenqueue, us": asynchronous / SINGLE_PUSHES * 1e6,
        "pushed in bulk, us": microseconds(bulk, options.jobs),
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
