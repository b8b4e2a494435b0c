"""The command line of `bench rtt`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench import rtt
from bench.compare import page as compare_page
from bench.compare.__main__ import chosen, versions
from bench.compare.bench import say
from bench.compare.rivals import CONTESTANTS
from bench.compare.server import Server
from bench.compare.stats import Rows
from bench.compare.tournament import Tournament
from bench.compare.venvs import programs_of
from bench.rtt import page, relay
from bench.rtt.plan import ROUND_TRIPS_MS, SCALE, tests

USUAL = ("offsider", "Sidekiq", "Dramatiq", "Taskiq")


def main() -> int:
    options = parse()
    if options.load:
        about, samples = compare_page.load(options.load)
    else:
        contestants = chosen(options.only)
        programs = {one.name: programs_of(one) for one in contestants}
        scale = replace(SCALE, repeats=options.rounds, run_seconds=options.seconds)
        load_before, started = os.getloadavg()[0], time.monotonic()
        with Server() as server:
            about = compare_page.about(server.version, versions(contestants))
            about["relay"] = [dict(relay.measure(server, rtt_ms)) for rtt_ms in options.rtt]
        tournament = Tournament(contestants, programs, tests(options.rtt), scale)
        with suppress(KeyboardInterrupt):  # report the samples measured so far
            tournament.play()
        samples = tournament.samples
        about |= {
            "round_trips_ms": options.rtt,
            "rounds": options.rounds,
            "load": [load_before, os.getloadavg()[0]],
            "minutes": (time.monotonic() - started) / 60,
        }
        say(f"took {about['minutes']:.1f} min")
    if options.json:
        compare_page.save(options.json, about, samples)
    measured = {sample.contestant for sample in samples}
    text = page.report(about, Rows(samples), [one for one in CONTESTANTS if one.name in measured])
    print(text)
    if options.markdown:
        compare_page.PAGE.write_text(compare_page.placed(compare_page.PAGE.read_text(), text, "rtt"))
    for sample in samples:
        if sample.error:
            say(f"\n{sample.test} of {sample.contestant}: {sample.error}")
    return 0  # the bars do not affect the exit code


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dev.py bench rtt", description=rtt.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=USUAL, metavar="NAME", help=f"default: {' '.join(USUAL)}")
    parser.add_argument("--rtt", nargs="+", type=float, default=list(ROUND_TRIPS_MS), metavar="MS")
    parser.add_argument("--rounds", type=int, default=SCALE.repeats, help=f"default {SCALE.repeats}")
    parser.add_argument("--seconds", type=float, default=SCALE.run_seconds, help="duration of a drain")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to a file")
    parser.add_argument("--load", type=Path, metavar="FILE", help="read samples from a --json file, measure nothing")
    parser.add_argument("--markdown", action="store_true", help="write the tables into docs/internals/performance.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
