"""The command line of `bench scale`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from bench import scale
from bench.compare import page as compare_page
from bench.compare.bench import say
from bench.compare.server import Server
from bench.compare.stats import Rows, Sample
from bench.scale import page
from bench.scale.curves import CURVES, Curve, Point
from bench.scale.measure import measure


def main() -> int:
    """Measure the curves and print their tables; exit code 1 if a point failed."""
    options = parse()
    samples: list[Sample] = []
    if options.load:
        about, samples = compare_page.load(options.load)
    else:
        started, load_before = time.monotonic(), os.getloadavg()[0]
        with Server() as server:
            about = compare_page.about(server.version, {})
        with suppress(KeyboardInterrupt):  # report the rounds measured so far
            for repeat in range(options.rounds):
                samples += play(repeat, options)
                minutes = (time.monotonic() - started) / 60
                about |= {"rounds": repeat + 1, "load": [load_before, os.getloadavg()[0]], "minutes": minutes}
                if options.json:
                    compare_page.save(options.json, about, samples)
    rows = Rows(samples)
    print(page.report(about, rows))
    if options.markdown:
        page.write(about, rows)
    failed = [sample for sample in samples if sample.error]
    for sample in failed:
        say(f"\n{sample.test} {sample.contestant}: {sample.error}")
    return 1 if failed else 0


def play(repeat: int, options: argparse.Namespace) -> list[Sample]:
    """Measure every point once."""
    samples: list[Sample] = []
    for curve in CURVES:
        if curve.name in options.only:
            for value, point in curve.points(is_quick=options.quick, most=options.most):
                samples.append(sampled(curve, value, point, repeat))
                say(f"round {repeat + 1}  {curve.name:<10} {value:>10,}  {page.brief(samples[-1])}")
    return samples


def sampled(curve: Curve, value: int, point: Point, repeat: int) -> Sample:
    try:
        return Sample(curve.name, str(value), repeat, measure(point))
    except RuntimeError as error:
        return Sample(curve.name, str(value), repeat, error=str(error))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dev.py bench scale", description=scale.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [curve.name for curve in CURVES]
    parser.add_argument("--only", nargs="+", default=names, choices=names, help="the curves to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=0, metavar="N", help="omit points above this number")
    parser.add_argument("--quick", action="store_true", help="one round over small ranges, to test the program")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to a file")
    parser.add_argument("--load", type=Path, metavar="FILE", help="read samples from a --json file, measure nothing")
    parser.add_argument("--markdown", action="store_true", help="write docs/internals/scale.md and its chart")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    return options


if __name__ == "__main__":
    sys.exit(main())
