"""The command line of the comparison."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench import report
from bench.compare.bench import redis_server, say
from bench.compare.rivals import CONTESTANTS, RUBY, SIDEKIQ, Contestant
from bench.compare.tables import report as tables
from bench.compare.tournament import FULL, QUICK, TESTS, Test, Tournament
from bench.report import Rows
from offsider import __version__


def main() -> int:
    options = parse()
    contestants = chosen(options.only)
    programs = {one.name: one.install() for one in contestants}
    usual = QUICK if options.quick else FULL
    wanted = {"repeats": options.repeats, "run_seconds": options.seconds, "rtt_ms": options.rtt}
    scale = replace(usual, **{name: value for name, value in wanted.items() if value})
    about = report.conditions(redis_server(), versions(contestants), options.rtt)
    started = time.monotonic()
    tournament = Tournament(contestants, programs, chosen_tests(options.tests), scale)
    with suppress(KeyboardInterrupt):  # report the samples measured so far
        tournament.play()
    samples = tournament.samples
    say(f"took {(time.monotonic() - started) / 60:.1f} min")
    if options.json:
        report.save(options.json, about, samples)
    rows = Rows(samples)
    measured = {sample.contestant for sample in samples}
    shown = [one for one in CONTESTANTS if one.name in measured]
    print(tables(about, rows, shown))
    for sample in samples:
        if sample.error:
            say(f"\n{sample.test} of {sample.contestant}: {sample.error}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench compare", description=__doc__)
    names = ", ".join(one.name for one in CONTESTANTS)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"contestants, or the start of their names: {names}")
    parser.add_argument(
        "--tests", nargs="+", metavar="TEST", help="; ".join(f"{test.name}: {test.title}" for test in TESTS)
    )
    parser.add_argument("--repeats", type=int, help=f"default {FULL.repeats}, quick {QUICK.repeats}")
    seconds = f"duration of a run; default {FULL.run_seconds:g}, quick {QUICK.run_seconds:g}"
    parser.add_argument("--seconds", type=float, help=seconds)
    parser.add_argument("--rtt", type=float, metavar="MS", help="add this round trip between clients and server")
    parser.add_argument("--quick", action="store_true", help="fewer repeats of shorter runs: about ten minutes in all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to a file")
    return parser.parse_args()


def chosen(names: Sequence[str] | None) -> list[Contestant]:
    wanted = [name.lower() for name in names or [""]]
    found = [one for one in CONTESTANTS if any(one.name.lower().startswith(name) for name in wanted)]
    for one in [one for one in found if not one.is_available]:
        say(f"skipping {one.name}: not installed (python3 dev.py test --install-system installs it)")
        found.remove(one)
    return found or sys.exit(f"no contestant is called {' or '.join(wanted)}")


def chosen_tests(names: Sequence[str] | None) -> list[Test]:
    wanted = {part for name in names or [] for part in name.split(",") if part}
    unknown = wanted - {test.name for test in TESTS}
    if unknown:
        sys.exit(f"no test is called {', '.join(sorted(unknown))}")
    return [test for test in TESTS if not wanted or test.name in wanted]


def versions(contestants: Sequence[Contestant]) -> dict[str, str]:
    """Return the versions of programs that are not pinned here."""
    told = {"offsider": __version__}
    if not all(one.is_python for one in contestants):
        sidekiq = subprocess.run([SIDEKIQ, "--version"], capture_output=True, text=True, check=False).stdout
        ruby = subprocess.run([RUBY, "--version"], capture_output=True, text=True, check=False).stdout
        told |= {"Sidekiq": sidekiq.split()[-1], "Ruby": ruby.split()[1]}
    return told


if __name__ == "__main__":
    sys.exit(main())
