"""The command line of `bench scale`."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from bench import report, scale
from bench.compare.bench import say
from bench.report import Rows, Sample
from bench.scale.curves import CURVES, HEADS, Curve, Point
from bench.scale.measure import measure
from offsider import __version__
from offsider.embedded import find_server_binary


def main() -> int:
    """Measure the curves and print their tables; exit code 1 if a point failed."""
    options = parse()
    samples: list[Sample] = []
    about = report.conditions(find_server_binary(), {"offsider": __version__})
    with suppress(KeyboardInterrupt):  # report the rounds measured so far
        for repeat in range(options.rounds):
            samples += play(repeat, options)
            if options.json:
                report.save(options.json, about, samples)
    rows = Rows(samples)
    print("\n\n".join([about, *filter(None, (table_of(rows, curve) for curve in CURVES))]))
    return 1 if any(sample.error for sample in samples) else 0


def table_of(rows: Rows, curve: Curve) -> str:
    """Return the table of a curve, with one line for each measured value; empty without any."""
    columns = [report.Column(curve.name, name, *HEADS[name]) for name in curve.figures]
    return report.table(rows, curve.title, sorted(rows.contestants(curve.name), key=int), columns)


def play(repeat: int, options: argparse.Namespace) -> list[Sample]:
    """Measure every point once."""
    samples: list[Sample] = []
    for curve in CURVES:
        if curve.name in options.only:
            for value, point in curve.points(is_quick=options.quick):
                samples.append(sampled(curve, value, point, repeat))
                say(f"round {repeat + 1}  {curve.name:<10} {value:>10,}  {brief(samples[-1])}")
    return samples


def brief(sample: Sample) -> str:
    """Return the figures of a sample in one line."""
    return sample.error or "  ".join(f"{name} {value:.2f}" for name, value in sample.figures.items())


def sampled(curve: Curve, value: int, point: Point, repeat: int) -> Sample:
    try:
        return Sample(curve.name, str(value), repeat, measure(point))
    except (RuntimeError, AssertionError) as error:
        return Sample(curve.name, str(value), repeat, error=str(error))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dev.py bench scale", description=scale.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [curve.name for curve in CURVES]
    parser.add_argument("--only", nargs="+", default=names, choices=names, help="the curves to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round over small ranges, to test the program")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to a file")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    return options


if __name__ == "__main__":
    sys.exit(main())
