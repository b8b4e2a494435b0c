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
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"stress: seed {seed}, {options.minutes:g} min", flush=True)
    plan = Plan(seed, options.minutes * 60)
    report = play(plan, lambda line: print(f"stress: {line}", flush=True))
    for name, value in report.figures.items():
        print(f"{name}: {value}")
    print(f"replay: python3 dev.py bench stress --seed {seed} --minutes {options.minutes:g}")
    verdict = f"FAILED: {'; '.join(report.missed)}" if report.missed else "passed"
    print(f"stress: {report.tally.acked} jobs, lost {report.tally.lost}: {verdict}")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
