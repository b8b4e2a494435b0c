"""Does one worker process use several cores? CPU-bound jobs and no-ops, on one or more interpreters.

    python3 dev.py bench cores
    python3 dev.py bench cores --python .venv/bin/python .venv-3.14t/bin/python --rounds 7

`python3 dev.py full --python PATH` makes the environment of another interpreter. In each round, one worker process
after the other runs on the same server, for each interpreter: jobs that compute for 1 ms in pure Python, with one and
with several threads, then no-ops with one and with ten. The table has medians over the rounds:

* jobs/s: from the start of the first job to the end of the last one.
* CPU us a job: CPU time of the worker, without its boot.
* cores: CPU seconds of the worker per second. On a busy machine other programs take cores, and jobs/s falls with it.
* per core: jobs/s of several threads, divided by jobs/s of one thread in the same round and by the number of threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.place import Place, Ran

#: About a millisecond on CPython 3.11.
LOOPS = 20_000
#: Kind of job, and threads; 0 stands for ``--threads``.
SCENARIOS = (("spin", 1), ("spin", 0), ("noop", 1), ("noop", 10))
TOLD = "import platform, sys; print(platform.python_version() + sys.abiflags)"


Rounds = Mapping[tuple[str, str, int], Sequence[Ran]]


def main() -> int:
    """Measure and print the table; exit code 1 if a job was lost."""
    options = parse()
    # Absolute, because each worker runs in its own folder; not resolved, because the link selects the environment.
    versions = {version_of(python): str(Path(python).absolute()) for python in options.python}
    found: defaultdict[tuple[str, str, int], list[Ran]] = defaultdict(list)
    began = os.getloadavg()[0]
    with Place() as place:
        client = place.client()
        for _ in range(options.rounds):
            for kind, threads in SCENARIOS:
                for version, python in versions.items():
                    threads = threads or options.threads  # noqa: PLW2901 - the wanted number
                    jobs = options.jobs if kind == "spin" else options.noops
                    place.push_bulk(client, jobs, kind, LOOPS)
                    found[version, kind, threads].append(place.drain(jobs, concurrency=threads, python=python))
    print("\n".join(table(found)))
    print(
        f"{options.rounds} rounds, {os.cpu_count()} cores, load {began:.1f} before and {os.getloadavg()[0]:.1f} after"
    )
    return 1 if any(one.lost for each in found.values() for one in each) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench cores", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="PATH", help="interpreters of workers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: the number of cores")
    parser.add_argument("--jobs", type=int, default=2_000, help="CPU-bound jobs of each worker")
    parser.add_argument("--noops", type=int, default=30_000)
    return parser.parse_args()


def version_of(python: str) -> str:
    return subprocess.run([python, "-c", TOLD], check=True, capture_output=True, text=True).stdout.strip()


def table(found: Rounds) -> list[str]:
    """Return the lines of a Markdown table, one for each interpreter, kind of job and number of threads."""
    lines = ["| Python | job | threads | jobs/s | CPU us a job | cores | per core | lost |", "|---" * 8 + "|"]
    for (version, kind, threads), rounds in found.items():
        rate, cpu_us, cores = (
            statistics.median(values)
            for values in zip(
                *((one.per_second, one.cpu_us, one.per_second * one.cpu_us / 1e6) for one in rounds), strict=True
            )
        )
        ratios = [
            several.per_second / alone.per_second / threads
            for several, alone in zip(rounds, found[version, kind, 1], strict=True)
        ]
        per_core = f"{statistics.median(ratios):.2f}" if kind == "spin" and threads > 1 else ""
        lost = sum(one.lost for one in rounds)
        lines.append(
            f"| {version} | {kind} | {threads} | {rate:,.0f} | {cpu_us:,.1f} | {cores:.2f} | {per_core} | {lost} |"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
