"""The reliability scoreboard: injects faults into real workers and servers, and counts the jobs by result.

    python3 dev.py scoreboard                      tier smoke: small counts, under three minutes
    python3 dev.py scoreboard --tier full          the counts of the table, over an hour, on an idle machine
    python3 dev.py scoreboard --row R1 R3 --json

1. Each row runs in its own process, with its own servers, workers, proxies and ledger.
2. Jobs count their effects in the ledger, a second server without faults.
3. A row reports the results of its jobs and the checks of its bar. Lost jobs are computed from acknowledged pushes, not
   from Redis' own counters.
4. The exit code is 1 if a bar is missed. In tier smoke only counts matter, in tier full times as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from bench.scoreboard import markdown, table
from bench.scoreboard.ground import Ground
from bench.scoreboard.row import TIERS, Report, Row
from bench.scoreboard.rows import ROWS
from bench.scoreboard.runner import Runner

SEED = 20261121


def main() -> int:
    options = parse()
    if options.alone:
        return play_alone(ROWS[options.alone], options)
    chosen = [ROWS[name] for name in options.row] if options.row else [*ROWS.values()]
    rows = [row for row in chosen if options.row or options.tier in row.tiers]
    print(f"tier {options.tier}, seed {options.seed}, {len(rows)} rows", file=sys.stderr, flush=True)
    started = time.monotonic()
    runner = Runner(options.tier, options.seed, options.side_by_side or (4 if options.tier == "smoke" else 1))
    reports = runner.play(rows, told=None if options.json else table.show)
    if options.json:
        print(json.dumps([report.as_json() for report in reports], indent=2))
    else:
        print(table.summary(reports, time.monotonic() - started))
    if options.markdown:
        markdown.update(Path(options.markdown), reports)
    return 0 if all(report.passed for report in reports) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py scoreboard", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tier", choices=TIERS, default="smoke")
    parser.add_argument("--row", nargs="+", choices=ROWS, metavar="ROW", help=" ".join(ROWS))
    parser.add_argument("--seed", type=int, default=SEED, help="seed of all random generators (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")
    parser.add_argument("--markdown", metavar="PAGE", help="write the results into the table of this page")
    parser.add_argument(
        "--side-by-side", type=int, metavar="N", help="rows at a time (default: 4 in tier smoke, 1 in tier full)"
    )
    parser.add_argument("--alone", choices=ROWS, help=argparse.SUPPRESS)
    return parser.parse_args()


def play_alone(row: Row, options: argparse.Namespace) -> int:
    """Run one row in this process; print only the report to standard output."""
    signal.signal(signal.SIGTERM, _leave)
    told, sys.stdout = sys.stdout, sys.stderr
    report = Report(row.name, options.tier, options.seed)
    started = time.monotonic()
    try:
        with Ground(options.tier, seed_of(row, options.seed)) as ground:
            row.play(ground, report)
            report.seconds = time.monotonic() - started
    except Exception:  # noqa: BLE001 - a row that raises has missed its bar; the others continue
        report.broken = traceback.format_exc()
        report.seconds = time.monotonic() - started
    told.write(json.dumps(report.as_json()))
    told.flush()
    os._exit(0)  # threads of a faulty proxy or client must not keep the process alive


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)  # an exception, so that workers and servers are stopped as well


def seed_of(row: Row, seed: int) -> int:
    return random.Random(f"{seed} {row.name}").getrandbits(32)


if __name__ == "__main__":
    sys.exit(main())
