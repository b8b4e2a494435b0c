"""The cost of extensions: pushes and no-op jobs without one, with one that is not used, and with one in use.

    python3 dev.py bench extensions --jobs 20000 --rounds 5

Each round measures each kind on a server of its own, in a different order; the figures are medians. At the limit of 3
the other threads are idle, so that its runs measure how fast a slot passes from job to job. Jobs with a lock have
different arguments, so that none is refused. The memory of a worker should not depend on the number of jobs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from bench.load_app import EXTENSIONS
from bench.place import Place, microseconds
from offsider.ext.batches import Batch

SINGLE_PUSHES = 1_000
HEADS = ("us a push", "us a bulk push", "us a run", "us of CPU", "MiB")


@dataclass(frozen=True)
class Kind:
    """A kind of jobs.

    Attributes:
        extension: in pushing process and worker; empty for none.
        options: of each job.
        in_batch: the jobs of the bulk push are members of one batch.
    """

    extension: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    in_batch: bool = False


KINDS = {
    "no extension": Kind(),
    "batches, none open": Kind("batches"),
    "in a batch": Kind("batches", in_batch=True),
    "limits, none set": Kind("limits:0"),
    "never at the limit": Kind("limits:1000"),
    "at a limit of 3": Kind("limits:3"),
    "unique, no option": Kind("unique"),
    "with a lock": Kind("unique", {"unique_for": 600}),
}


def main() -> int:
    """Print the figures of each kind."""
    parser = argparse.ArgumentParser(prog="dev.py bench extensions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    options = parser.parse_args()
    runs: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in options.only}
    for number in range(options.rounds):
        first = number % len(options.only)
        for kind in options.only[first:] + options.only[:first]:
            runs[kind].append(measure(KINDS[kind], options.jobs))
    print(f"{'':<22}" + "".join(f"{head:>16}" for head in HEADS))
    for kind, figures in runs.items():
        print(f"{kind:<22}" + "".join(f"{statistics.median(values):>16.1f}" for values in zip(*figures, strict=True)))
    return 0


def measure(kind: Kind, jobs: int) -> tuple[float, ...]:
    """Return the figures of `HEADS`."""
    name, _, value = kind.extension.partition(":")
    with Place() as place:
        client = place.client(*([EXTENSIONS[name](value)] if name else []))

        def one_by_one() -> None:
            for number in range(SINGLE_PUSHES):
                client.push({"class": "bench.noop", "args": [number, "one", 1], "queue": "unserved", **kind.options})

        def in_bulk() -> None:
            with Batch(config=client.config, autoflush=10_000) if kind.in_batch else nullcontext():
                place.push_bulk(client, jobs, **kind.options)

        pushes = [microseconds(one_by_one, SINGLE_PUSHES), microseconds(in_bulk, jobs)]
        ran = place.drain(jobs, extension=kind.extension)
        return (*pushes, 1e6 / ran.middle, ran.cpu_us, ran.last.peak_mb)


if __name__ == "__main__":
    sys.exit(main())
