"""The command line of `bench stress`."""

from __future__ import annotations

import argparse
import random
import sys

from bench import stress
from bench.stress.harness import Plan, play


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="dev.py bench stress", description=stress.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="duration of the faults; default 1")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--processes", type=int, default=Plan.processes, help=f"default {Plan.processes}")
    parser.add_argument(
        "--lines", type=int, default=Plan.lines, help="pause at one of this number of lines; default %(default)s"
    )
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"stress: seed {seed}, {options.minutes:g} min", flush=True)
    plan = Plan(seed, options.minutes * 60, options.processes, options.lines)
    result = play(plan, lambda line: print(f"stress: {line}", flush=True))
    print("faults:", ", ".join(f"{fault} {count}" for fault, count in sorted(result.faults.items())))
    if result.logs:
        print(f"logs of the workers: {result.logs}")
    print(f"replay: python3 dev.py bench stress --seed {seed} --minutes {options.minutes:g}")
    print(f"stress: {result.line}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
