"""Counts the instructions of a push, of a no-op job, and of one with the job log (INFO): repeatable on a busy machine.

    python3 dev.py bench instructions HEAD~1

valgrind, which must be installed, counts those of Python and of libraries; those of the kernel and of the server do not
count. It makes a process fifty times slower, so a request brings and acknowledges fewer jobs than in reality.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

from bench.place import ROOT, Place
from bench.revision import sources, table
from offsider import Config, job
from offsider.logs.setup import setup_logging
from offsider.worker.embed import EmbeddedWorker

#: Jobs before those that count, and jobs that run while counting is switched on or off.
WARM_UP, SPARE = 300, 50_000
#: Of valgrind's fifty times slower process.
SWITCH_SECONDS = 0.25
VALGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--instr-atstart=no")
ran: list[int] = []
marks: dict[int, threading.Event] = {}


@job(name="bench.count")
def count(number: int, *_rest: object) -> None:
    """Count a run."""
    ran.append(number)
    if (mark := marks.get(len(ran))) is not None:
        mark.set()


def main() -> int:
    parser = argparse.ArgumentParser(prog="dev.py bench instructions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision", nargs="?", default="", help="git revision to compare with")
    parser.add_argument("--jobs", type=int, default=3_000)
    options = parser.parse_args()
    with sources(options.revision) as found:
        counts = {kind: [{step: counted(step, src, options.jobs) for step in STEPS}] for kind, src in found.items()}
    print(table(counts.get("before", []), counts["now"]))
    return 0


def counted(step: str, source: Path, jobs: int) -> float:
    """Return the instructions per job of a step with the code in ``source``."""
    command = [*VALGRIND, sys.executable, "-c", f"from bench.instructions import STEPS; STEPS[{step!r}]({jobs})"]
    with Place(persist=False, environ={"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}) as place:
        place.push_bulk(place.client(), WARM_UP + jobs + SPARE, "count")
        ended = subprocess.run(
            command, env=place.environ, cwd=place.folder, capture_output=True, check=False, text=True
        )
    collected = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode or collected is None:
        sys.exit(ended.stderr)
    return int(collected[1]) / int(ended.stdout)


def push(jobs: int) -> None:
    unserved = count.using(queue="unserved")
    for number in range(WARM_UP + jobs):
        if number == WARM_UP:
            switch("on")
        unserved.enqueue(number, "two", 3)
    switch("off")
    print(jobs)


def work(jobs: int, level: str) -> None:
    config = Config()
    config.redis.url, config.log.level = os.environ["OFFSIDER_REDIS_URL"], level
    sys.setswitchinterval(SWITCH_SECONDS)
    marks[WARM_UP] = threading.Event()
    with Path("log").open("w") as log, EmbeddedWorker(config, concurrency=5):
        setup_logging(config.log, log)
        marks[WARM_UP].wait()
        switch("on")
        before = len(ran)
        ended = marks[before + jobs] = threading.Event()
        ended.wait()
        switch("off")
        print(len(ran) - before)


def switch(counting: str) -> None:
    """Let valgrind count or not, from now on."""
    subprocess.run(["callgrind_control", "-i", counting, str(os.getpid())], check=True, capture_output=True)


#: Each runs in a process of its own, and prints the number of jobs that count.
STEPS = {"push": push, "no-op": partial(work, level="warn"), "no-op with INFO log": partial(work, level="info")}


if __name__ == "__main__":
    sys.exit(main())
